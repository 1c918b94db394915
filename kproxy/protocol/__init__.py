"""Kafka's bytes, without I/O: no module here opens a socket, reads a clock or writes a log.

capture  redacted copies of frames
records  record batches: headers, checksums, codecs, records
rewrite  the responses that carry addresses, and the replacement of these
wire     API keys and versions, base types, message definitions, reading a response field by field
"""
