"""Record batches, as brokers keep them and as they are copied (pure).

Nothing here does I/O: bytes come in, bytes and numbers go out. `crc32c` and `cramjam` do the checksums and codecs.

    header      the batches in a fetch response, their headers and checksums
    committed   leaves out what a consumer that reads committed does not see
    varint      the zigzag varints of records
    codecs      gzip, Snappy, LZ4 and Zstandard, as Kafka's clients write them
    decoding    the records of a batch of any magic
    together    small batches decompressed in one go
    encoding    a batch of records, without decoding those that come from another batch
    copying     batches of one partition as Produce requests take them: the heart
"""
