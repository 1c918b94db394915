"""Numbers that are another protocol's first bytes, because Kafka reads the first four bytes as a size."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kproxy.base.faults import Fault
from kproxy.protocol.wire.api import APIS
from kproxy.protocol.wire.greeting import Greeting, recognise

_SIZE = re.compile(r"(?:size|length|size =|length:) (-?\d{1,10})\b")
_KEY = re.compile(r"(?i)\bapi ?key[ :=]{1,3}(-?\d{1,6})\b")
# Sarama shows the first four bytes of an answer to a login so.
_BYTES = re.compile(r"\[(\d{1,3}) (\d{1,3}) (\d{1,3}) (\d{1,3})\]")
# As Java and Erlang (brod) print them: the versions that the client wants, and those of the broker.
_RANGES = (
    re.compile(r"in range \[(\d{1,4}), ?(\d{1,4})\]\. The supported range is \[(\d{1,4}), ?(\d{1,4})\]"),
    re.compile(r"unsupported_vsn_range, ?:?\w{1,60}, ?\{(\d{1,4}), ?(\d{1,4})\}, ?\{(\d{1,4}), ?(\d{1,4})\}"),
)
_VERSIONS = {0: "SSL 3.0", 1: "TLS 1.0", 2: "TLS 1.1", 3: "TLS 1.2", 4: "TLS 1.3"}
_WORDS = {
    b"HTTP",
    b"GET ",
    b"POST",
    b"PUT ",
    b"HEAD",
    b"DELE",
    b"OPTI",
    b"CONN",
    b"PATC",
    b"TRAC",
    b"PRI ",
    b"SSH-",
    b"PROX",
}


@dataclass(frozen=True, slots=True)
class DecodedNumber:
    """A number, its meaning, and its fault."""

    number: int
    meaning: str
    fault: Fault


def decode_size(number: int) -> DecodedNumber | None:
    """Decode a size that is the first four bytes of another protocol; None if it may be a size."""
    if not -(1 << 31) <= number < 1 << 31:
        return None
    first = (number & 0xFFFFFFFF).to_bytes(4, "big")
    hexadecimal = f"0x{first.hex()}"
    if first[1] == 3 and first[0] in (0x14, 0x15, 0x16, 0x17) and first[2] in _VERSIONS:
        greeting = recognise(first)
        # A record says TLS 1.2 in all later versions, and the first hello often TLS 1.0 (RFC 8446 §5.1).
        version = f"{hexadecimal}, a record of {_VERSIONS[first[2]]} or later"
        if greeting is Greeting.TLS:
            return DecodedNumber(number, f"the start of a TLS handshake ({version})", Fault.TLS_TO_PLAINTEXT)
        if greeting is Greeting.TLS_ALERT:
            return DecodedNumber(number, f"a TLS alert ({version})", Fault.PLAINTEXT_TO_TLS)
        return DecodedNumber(number, f"a TLS record ({version})", Fault.PLAINTEXT_TO_TLS)
    if first in _WORDS:
        word = first.decode().strip()
        return DecodedNumber(number, f'the text "{word}" ({hexadecimal})', Fault.NOT_KAFKA)
    if all(0x20 <= byte < 0x7F or byte in b"\r\n\t" for byte in first):
        return DecodedNumber(number, f"four characters of text, {first.decode()!r} ({hexadecimal})", Fault.NOT_KAFKA)
    return None


def decode_key(number: int) -> DecodedNumber | None:
    """Decode an API key that is bytes 5 and 6 of another protocol: a hello's length and type, or text."""
    if number in APIS or not -(1 << 15) <= number < 1 << 15:
        return None
    two_bytes = (number & 0xFFFF).to_bytes(2, "big")
    if two_bytes[1] == 1:  # ClientHello (RFC 8446 §4)
        return DecodedNumber(number, f"the start of a TLS handshake (0x{two_bytes.hex()})", Fault.TLS_TO_PLAINTEXT)
    if all(0x20 <= byte < 0x7F for byte in two_bytes):
        return DecodedNumber(
            number, f"two characters of text, {two_bytes.decode()!r} (0x{two_bytes.hex()})", Fault.NOT_KAFKA
        )
    return None


def decode(line: str) -> DecodedNumber | None:
    """Decode the first number of a line that is another protocol's bytes."""
    for match in _SIZE.finditer(line):
        if decoded := decode_size(int(match[1])):
            return decoded
    for match in _BYTES.finditer(line):
        values = [int(value) for value in match.groups()]
        if max(values) < 256 and (decoded := decode_size(int.from_bytes(values, signed=True))):
            return decoded
    for match in _KEY.finditer(line):
        if decoded := decode_key(int(match[1])):
            return decoded
    return None


def fault_of_ranges(line: str) -> Fault | None:
    """Return which side is too old, by the versions that the client wants and the broker supports; None if none is."""
    match = next(filter(None, (ranges.search(line) for ranges in _RANGES)), None)
    if match is None:
        return None
    oldest_wanted, newest_wanted, oldest, newest = map(int, match.groups())
    if newest < oldest_wanted:
        return Fault.BROKER_TOO_OLD
    return Fault.BROKER_TOO_NEW if oldest > newest_wanted else None
