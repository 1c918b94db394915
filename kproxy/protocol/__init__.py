"""Kafka's bytes, without I/O: no module here opens a socket, reads a clock or writes a log.

capture  copies of frames without what must not be shown
records  record batches: headers, checksums, codecs, records
rewrite  the responses that carry addresses, and how these are replaced
wire     API keys and versions, base types, message definitions, reading an answer field by field
"""
