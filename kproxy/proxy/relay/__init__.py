"""One session: a client connection and its upstream connection.

    calls                 what kproxy does with each API and version, and its counters; a guard's verdicts
    requests              what kproxy must read of a request beyond its first 12 bytes; SASL tokens without a header
    introduction          sans-IO: the client id and the software's name that a client sends
    inflight              sans-IO: the requests that have no response yet, in their order
    judged                sans-IO: what an authorizer decides about a request, and the responses that it changes
    guard                 sans-IO: limits a client after a switch: its first writes, its positions
    conversation          sans-IO: which frames may pass, and when; the client's frames
    responses             sans-IO: the broker's frames
    selector              an asyncio selector that runs the data plane inline
    loop                  asyncio's event loop over that selector
    pump                  the selector, and the memory for reading, which all sessions share
    side                  one of the two connections of a session, and the bytes that it has not taken yet
    observer              sans-IO: observes which requests and responses pass
    errorcode             sans-IO: the first error code of a response
    observedconversation  sans-IO: a conversation with an observer, a capture, or a reader of requests
    session               the data plane: moves bytes between the two sides, with back-pressure

`relay` gets "the local addresses for these endpoints" as a callable, so it never imports `cluster`.

The data plane
--------------

asyncio wraps each event in a handle, a context and a queue; its streams add a task, a future and copies. For a relay
of many small frames, that is most of the cost. So `RelaySelector` is asyncio's selector, and calls the callbacks of
the sessions' sockets inside `select()`. Only accepts, dials, HTTP, signals and timers reach the event loop.
`RelayLoop` is the event loop over it: code that waits there for one socket has it watched in the same way, without a
handle. The pump is the same on all platforms, and all sessions of a process share one.

 * One read, one scan, one write: `recv_into` reads into a chunk of 1 MiB that all sessions share, kproxy goes from
   frame header to frame header within it, and `send` takes the same memory. Nothing is copied or scheduled for each
   frame.
 * Requests of the same API and version with consecutive correlation ids are recorded and counted as one entry; so are
   their responses. For a producer that repeats itself, kproxy knows `acks` without reading it again.
 * Back-pressure is a short write. A side that does not take everything keeps the rest, and kproxy does not read the
   other side until the first is writable again. A side keeps a copy of up to 32 KiB, or the chunk itself; the pump
   then takes a fresh chunk. While sides keep two chunks or more, a read takes at most 192 KiB; from 256 on, at most 32
   KiB. So slow peers cost at most 50 MiB, plus 32 KiB for each peer beyond 256.
 * kproxy's own answers keep their place: behind requests without a response, they are in flight like those. If a
   client does not take earlier answers, kproxy does not read from it. So at most the answers to two reads wait.
 * kproxy does not read a held client, but for the rest of a request that has begun. If the same read brings more, that
   waits, and the client counts as one that keeps a chunk.
 * What takes long is done a little at a time, after the sockets have had their turn (`RelaySelector.defer`): at most
   half a millisecond in each turn. A response that is walked or rewritten for long has itself called again so
   (`Response.busy`).
 * The selector reports a hang-up even if no code asked for it. If a peer has disconnected and kproxy cannot pass on
   its last bytes yet, kproxy removes the socket from the selector.
 * Observation is free when off: while a session has an observer, its two steps are replaced, and put back afterwards.
 * A callback that schedules something on the loop must set `wake`; else `select()` would not return.

Holding
-------

 * kproxy can hold a session before its first request (`hold_before_first_request`): only the client's login messages
   pass. Holds are counted: each party releases its own, and requests pass again after the last release. kproxy logs in
   again within a held session.
 * A login may have a lifetime (KIP-368). After 85 to 95 % of it, kproxy fetches the credentials, holds the client's
   requests at the end of one, logs in again, and releases them (`kproxy.proxy.cluster.insessionchannel`). So requests
   wait only for the round trips. A lifetime below one second counts as one second, a negative one as none.
 * Access rules judge a request before any guard (`judged`, `kproxy.proxy.access`). A request that is refused before it
   has come whole is discarded as it comes. What costs too much in one turn waits, held, for the next.
 * Before a cluster is switched, kproxy holds only writes (`kproxy.proxy.cluster.writehold`). A session is held from its
   first write on; what stands behind a write waits too. No write is under way when each has been sent whole, answered
   whole, and the client's system has confirmed that the answer arrived. This costs nothing for each frame: a session
   of such a cluster notes an API when the client first uses it, and kproxy counts only when it must know. A client
   whose session ended without the answer to a write is in doubt: it will send the write again. Until it has, or has
   given up, the writes do not count as settled, and those of this client pass.
 * After a switch, each session has a guard. It judges the requests of a few APIs before they pass, and looks at their
   responses (docs/flip.md says which, and why). A guard takes the place of the calls of these APIs, and puts a call
   back as soon as it no longer needs the API. So other APIs, and sessions without a guard, cost what they cost before.
"""
