"""One session: a client connection and its upstream connection.

    calls         what to do with each API and version, and its counters
    requests      what must be known of a request beyond its first 12 bytes
    tokens        SASL tokens without a header
    inflight      sans-IO: the requests that have no response yet, in their order
    conversation  sans-IO: what may pass, and when; the client's frames
    responses     sans-IO: the broker's frames
    wrongpeer     what to say when one side does not speak Kafka
    selector      an asyncio selector that runs the data plane inline
    pump          what sessions share: the selector, and the memory that they read into
    side          one of the two connections of a session, and what it has not taken yet
    session       the data plane: moving bytes between the two sides, with back-pressure
    roster        the sessions of one cluster, held and drained together

`relay` is given "the local addresses for these endpoints" as a callable, so it never sees `cluster`.
"""
