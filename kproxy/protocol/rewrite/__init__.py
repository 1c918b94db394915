"""Finding and replacing the broker addresses inside responses. Sans-IO.

    endpoints    the only table of responses with addresses, and the definition of an endpoint
    plan         compiles a message definition and a version to the steps of a walk
    walk         takes these steps over bytes that arrive in any chunks
    splice       replaces what the walk found, at a new length or at the same
    remembered   the fronts of responses that came last, known again by their bytes
    response     one response on its way through: hold, walk, splice, stream
    plain        recognises responses of the usual shape, which name no endpoint, without a walk
    apiversions  ApiVersions responses: caps them to what kproxy can rewrite
    features     the tagged fields of an ApiVersions response

No other room edits a frame.
"""
