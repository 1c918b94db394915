"""Record batches, as brokers keep them and as they are copied (pure).

Nothing here does I/O: bytes come in, bytes and numbers go out. `crc32c` and `cramjam` do the checksums and codecs.

    header              the batches of a Fetch response: headers, checksums, and those that read_committed leaves
    varint              the zigzag varints of records
    codecs              gzip, Snappy, LZ4 and Zstandard, as Kafka's clients write them
    decoding            the records of a batch of any magic
    jointdecompression  many small batches decompressed in one call
    encoding            a batch of records, without decoding those that come from another batch
    producebatches      the batches of a partition, prepared for Produce requests: the main module
"""
