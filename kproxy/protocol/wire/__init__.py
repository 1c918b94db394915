"""The Kafka protocol as bytes, sans-IO.

    api          API keys, names, the newest version of each that kproxy supports, header versions
    primitives   reads and writes the base types of the protocol, with bounds checks
    headers      the header fields that kproxy reads of each passing frame
    request      the encoding of kproxy's own requests
    reader       reads a response field by field
    definitions  message definitions: kafka-python's, and the project's own for those that kafka-python lacks
    greeting     recognises another protocol by the first bytes of a connection
    mismatch     the messages for a client or a broker that does not speak Kafka

A *frame* is an int32 size and that many bytes: a header (API key, API version, correlation id, …)
and a body. https://kafka.apache.org/protocol
"""
