"""Finding and replacing the broker addresses inside responses. Sans-IO.

    endpoints    the only table of responses with addresses, and the definition of an endpoint
    walkplan     compiles a message definition and a version to the steps of a walk
    walk         takes these steps over chunks of any size
    splice       replaces the addresses that the walk found, at a new length or at the same
    prefixcache  the prefixes of recent responses, recognised by their bytes
    response     one response on its way through: hold, walk, splice, stream
    plain        recognises responses of the usual shape, which name no endpoint, without a walk
    apiversions  ApiVersions responses: caps them to what kproxy can rewrite
    features     the tagged fields of an ApiVersions response
    versionsrequest  ApiVersions requests: those of clients, and the same to a certain cluster and node
    versionsanswer   ApiVersions responses of version 5 in the version that a client has asked for

No other room edits a frame.

 * kproxy walks a response and decodes nothing: docs/protocol.md says how.
 * The memory is bounded. kproxy holds a response up to its last address, at most 4 MiB. If the endpoints are at the
   end, kproxy holds up to 64 KiB of the response whole, and of a larger one only its last section.
 * In nearly all Fetch and Produce responses, no partition has moved. `plain` recognises such a response by its shape.
   This takes 0.6 µs for one partition and 0.12 µs for each further one; for consecutive partitions of the same size,
   each takes a hundredth of that. If kproxy must pass the response on before it has all of it, it walks the response,
   and skips partitions in the same way.
 * `prefixcache` is shared by all sessions of a process, and no entry is ever out of date: the result of a walk
   depends on the version and the bytes alone. It has at most 16 prefixes of up to 16 KiB and 256 nodes. The callable
   that gives local addresses is asked each time, with the same `Endpoints` object as before.
"""
