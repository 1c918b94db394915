"""The Kafka protocol as bytes, sans-IO.

    api          API keys, names, the newest version kproxy knows of each, header versions
    primitives   bounds-checked reading and writing of the protocol's base types
    definitions  message definitions: kafka-python's, and the project's own for what it lacks
    greeting     whose protocol the first bytes of a connection are, when they are not Kafka's

A *frame* is an int32 size and that many bytes: a header (API key, API version, correlation id, …)
and a body. https://kafka.apache.org/protocol
"""
