"""The subject of a certificate as text, as Java's `X500Principal.getName()` prints it (RFC 2253).

So a user's name is the one that a broker has for the same certificate (`DefaultKafkaPrincipalBuilder` in Kafka). The
parts come in the reverse of their order in the certificate. Java knows the names of nine types. Of others it prints the
number, and the encoded value in hexadecimal digits behind `#`. Pure.
"""

from __future__ import annotations

_SEQUENCE, _SET, _OID, _VERSION = 0x30, 0x31, 0x06, 0xA0
# Of RFC 2253, and as Java prints them (sun.security.x509.AVAKeyword).
_TYPES = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
# UTF8String, PrintableString, T61String, IA5String, GeneralString and BMPString. Java reads all of them as UTF-8.
_STRINGS = (0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E)
_ESCAPED = ',=+<>#;"\\'
_BLANK = " \r"


def read_subject(certificate: bytes) -> str:
    """Return the subject of a certificate (DER); "" if it is empty. Raises ValueError if it cannot be read."""
    body = _Reader(_Reader(certificate).take(_SEQUENCE)).take(_SEQUENCE)
    fields = _Reader(body)
    if body[:1] == bytes((_VERSION,)):
        fields.take(_VERSION)
    for _ in ("serial number", "signature", "issuer", "validity"):
        fields.take()
    names = _Reader(fields.take(_SEQUENCE))
    shown = []
    while names.has_more:
        parts = _Reader(names.take(_SET))
        attributes = []
        while parts.has_more:
            attributes.append(_attribute(_Reader(parts.take(_SEQUENCE))))
        shown.append("+".join(attributes))
    return ",".join(reversed(shown))


class _Reader:
    """Reads the elements of a DER encoding (X.690), one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0
        self.tag = 0

    @property
    def has_more(self) -> bool:
        return self._at < len(self._data)

    def take(self, expected: int | None = None, *, whole: bool = False) -> bytes:
        """Return the content of the next element, or, with `whole`, its encoding. Raises ValueError."""
        data, start = self._data, self._at
        if start + 2 > len(data):
            raise ValueError("the certificate ends too early")
        self.tag, size, at = data[start], data[start + 1], start + 2
        if size & 0x80:
            count = size & 0x7F
            length, at = data[at : at + count], at + count
            size = int.from_bytes(length, "big")
            if size < 0x80 or not length[0]:
                raise ValueError("the certificate has a length that is not DER")  # Java would print another one
        if at + size > len(data) or (expected is not None and self.tag != expected):
            raise ValueError("the certificate is no DER encoding of its fields")
        self._at = at + size
        return data[start if whole else at : self._at]


def _attribute(fields: _Reader) -> str:
    oid = _dotted(fields.take(_OID))
    rest = _Reader(fields.take(whole=True))
    encoded = rest._data
    content = rest.take()
    keyword = _TYPES.get(oid)
    if keyword is None or rest.tag not in _STRINGS:
        return f"{keyword or oid}=#{encoded.hex()}"
    return f"{keyword}={_escaped(content.decode('utf-8', 'replace'))}"


def _dotted(content: bytes) -> str:
    numbers, number = [], 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if not numbers:
        raise ValueError("an attribute of the certificate has no type")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _escaped(value: str) -> str:
    """Escape a value as `AVA.toRFC2253String` in Java does."""
    text = "".join(f"\\{c}" if c in _ESCAPED else "\\00" if c == "\0" else c for c in value)
    lead = len(text) - len(text.lstrip(_BLANK))
    trail = len(text.rstrip(_BLANK))
    return "".join(f"\\{c}" if not lead <= at < max(trail, lead) else c for at, c in enumerate(text))
