"""The Kafka protocol as bytes, sans-IO.

    acls         the operations and resources of ACLs
    api          API keys, names, the newest version of each that kproxy supports, header versions
    errorcodes   Kafka's error codes
    primitives   reads and writes the base types of the protocol, with bounds checks
    headers      the header fields that kproxy reads of each passing frame
    messages     reads and writes whole messages by their definitions, for kproxy's own requests and rare work
    definitions  message definitions: kafka-python's, and the project's own for those that kafka-python lacks
    greeting     recognises another protocol by the first bytes of a connection, and says which setting to change

A *frame* is an int32 size and that many bytes: a header (API key, API version, correlation id, …)
and a body. https://kafka.apache.org/protocol
"""
