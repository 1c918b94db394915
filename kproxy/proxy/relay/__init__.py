"""One session: a client connection and its upstream connection.

    calls         what kproxy does with each API and version, and its counters
    requests      what kproxy must read of a request beyond its first 12 bytes
    tokens        SASL tokens without a header
    introduction  sans-IO: the client id and the software that a client names
    inflight      sans-IO: the requests that have no response yet, in their order
    guard         sans-IO: what a client may do after its cluster was switched: its first writes, its positions
    verdict       sans-IO: what a guard says of a request
    conversation  sans-IO: which frames may pass, and when; the client's frames
    responses     sans-IO: the broker's frames
    selector      an asyncio selector that runs the data plane inline
    loop          asyncio's event loop over that selector
    pump          what sessions share: the selector, and the memory into which they read
    side          one of the two connections of a session, and the bytes that it has not taken yet
    observer      sans-IO: looks on, which requests and responses pass (no I/O)
    errorcode     sans-IO: the first error code of a response
    observation   sans-IO: an observer and a capture beside a conversation, while somebody looks on
    session       the data plane: moves bytes between the two sides, with back-pressure
    roster        the sessions of one cluster, which kproxy holds and drains together

`relay` gets "the local addresses for these endpoints" as a callable, so it never imports `cluster`.
"""
