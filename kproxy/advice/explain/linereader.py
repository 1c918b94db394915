"""The lines of a text that may be endless, binary or one line of megabytes, in bounded memory."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

# So much is read; a log is mostly explained by its beginning.
MOST = 1 << 30
# So much of a line is looked at.
LONGEST_LINE = 64 * 1024
_CHUNK = 128 * 1024

_COLOURS = re.compile(rb"\x1b\[[0-9;?]{0,16}[A-Za-z]")
_BOMS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


@dataclass(slots=True)
class LineReader:
    """Hands out whole lines, and remembers how much it has read. `complete` is False if there was more than `most`."""

    stream: BinaryIO
    max_bytes: int = MOST
    bytes_read: int = 0
    complete: bool = True

    def line_blocks(self) -> Iterator[list[bytes]]:
        """Groups of lines, without their ends and colours."""
        rest, skipping = b"", False
        for data in self._utf8():
            *lines, rest = (rest + data).split(b"\n")
            if skipping and lines:
                lines, skipping = lines[1:], False
            if len(rest) > LONGEST_LINE:
                if not skipping:
                    lines.append(rest)
                rest, skipping = b"", True
            yield [_cleaned(line) for line in lines]
        if rest and not skipping:
            yield [_cleaned(rest)]

    def _utf8(self) -> Iterator[bytes]:
        """The bytes; those of PowerShell, which writes UTF-16, converted."""
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
