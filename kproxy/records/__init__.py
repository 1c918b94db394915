"""Record batches, as brokers keep them and as they are copied (pure).

Nothing here does I/O: bytes come in, bytes and numbers go out. `crc32c` and `cramjam` do the checksums and codecs.
"""
