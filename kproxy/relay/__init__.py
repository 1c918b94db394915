"""One session: a client connection and its upstream connection.

    calls         what to do with each API and version, and its counters
    conversation  sans-IO: which request is in flight, and what to do with each frame
    requests      what must be known of a request beyond its first 12 bytes
    tokens        SASL tokens without a header
    session       one session's two sockets, and what waits between them
    wrongpeer     what to say when one side does not speak Kafka
    selector      an asyncio selector that runs the data plane inline
    pump          the data plane: moving bytes between two sockets, with back-pressure

`relay` is given "the local addresses for these endpoints" as a callable, so it never sees `cluster`.
"""
