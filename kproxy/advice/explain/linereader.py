"""A reader of lines from a text that may be endless, binary or one line of megabytes, in bounded memory."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

# The first bytes of a log mostly explain it.
MAX_BYTES = 1 << 30
# The bytes of a line that are searched.
LONGEST_LINE = 64 * 1024
_CHUNK = 128 * 1024

_COLOURS = re.compile(rb"\x1b\[[0-9;?]{0,16}[A-Za-z]")
_BOMS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


@dataclass(slots=True)
class LineReader:
    """Reads whole lines, and counts the bytes."""

    stream: BinaryIO
    max_bytes: int = MAX_BYTES
    bytes_read: int = 0
    complete: bool = True
    """False if the text has more than `max_bytes`."""

    def line_blocks(self) -> Iterator[list[bytes]]:
        """Yield groups of lines, without their ends and colours."""
        pending, skipping = b"", False
        for data in self._utf8():
            *lines, pending = (pending + data).split(b"\n")
            if skipping and lines:
                lines, skipping = lines[1:], False
            if len(pending) > LONGEST_LINE:
                if not skipping:
                    lines.append(pending)
                pending, skipping = b"", True
            yield [_cleaned(line) for line in lines]
        if pending and not skipping:
            yield [_cleaned(pending)]

    def _utf8(self) -> Iterator[bytes]:
        """Yield the bytes; those of PowerShell, which writes UTF-16, are converted."""
        decoder: codecs.IncrementalDecoder | None = None
        for data in self._chunks():
            if self.bytes_read == len(data):
                for bom, name in _BOMS:
                    if data.startswith(bom):
                        data, decoder = data[len(bom) :], codecs.getincrementaldecoder(name)("replace")
            yield decoder.decode(data).encode("utf-8", "replace") if decoder else data

    def _chunks(self) -> Iterator[bytes]:
        read = getattr(self.stream, "read1", self.stream.read)
        while data := read(_CHUNK):
            data = data[: self.max_bytes - self.bytes_read]
            self.bytes_read += len(data)
            if data:
                yield data
            if self.bytes_read >= self.max_bytes:
                self.complete = not self.stream.read(1)
                return


def _cleaned(line: bytes) -> bytes:
    line = line[:LONGEST_LINE].rstrip(b"\r")
    if b"\x1b" in line:
        line = _COLOURS.sub(b"", line)
    if b"\\n" in line:  # a stack trace within JSON
        line = line.replace(b"\\n", b"  ").replace(b"\\t", b"  ")
    return line
