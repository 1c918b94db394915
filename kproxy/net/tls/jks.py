"""Java's own key store format, JKS: trusted certificates, and private keys with their chains.

It is read here because the one library for it has had no release since 2020 and needs a C compiler. The format, as
OpenJDK writes it: magic number, version, and the entries, each with an alias and a date; at the end a SHA-1 digest
over password and content. A private key (PKCS #8) is hidden by Sun's own algorithm, a stream of SHA-1 digests.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from hmac import compare_digest
from struct import Struct, error, unpack_from

from kproxy.base.messages.files import PASSWORD_WRONG

MAGIC = b"\xfe\xed\xfe\xed"
_HEAD = Struct(">4sii")  # magic, version, number of entries
_KEY, _CERTIFICATE = 1, 2
_DIGEST = 20
_WHITENER = b"Mighty Aphrodite"


class WrongPassword(ValueError):
    """The password of a key store, or of a key in it, is missing or wrong."""


@dataclass(slots=True)
class KeyStore:
    """The contents of a key store, all of it DER.

    `keys` has PKCS #8 keys, still encrypted, with their chains, the key's own certificate first.
    """

    certificates: list[bytes] = field(default_factory=list)
    keys: list[tuple[bytes, list[bytes]]] = field(default_factory=list)


def read_key_store(data: bytes, password: str | None) -> KeyStore:
    """Read a JKS file. Without a password its integrity is not checked, as in Java.

    Raises ValueError with one line for the user, WrongPassword if it is about the password.
    """
    if password is not None:
        digest = hashlib.sha1(password.encode("utf-16-be") + _WHITENER + data[:-_DIGEST]).digest()
        if not compare_digest(digest, data[-_DIGEST:]):
            raise WrongPassword(PASSWORD_WRONG())
    try:
        return _entries(data)
    except (error, IndexError, UnicodeDecodeError):
        raise ValueError("is a damaged JKS file") from None


def _entries(data: bytes) -> KeyStore:
    _, version, count = _HEAD.unpack_from(data)
    if version not in (1, 2):
        raise ValueError(f"is a JKS file of version {version}; known are 1 and 2")
    store, at = KeyStore(), _HEAD.size
    for _ in range(count):
        (tag,) = unpack_from(">i", data, at)
        _, at = _chunk(data, at + 4, ">H")  # the alias
        at += 8  # the date
        if tag == _CERTIFICATE:
            certificate, at = _certificate(data, at, version)
            store.certificates.append(certificate)
        elif tag == _KEY:
            key, at = _chunk(data, at, ">i")
            (length,) = unpack_from(">i", data, at)
            at += 4
            chain = []
            for _ in range(length):
                certificate, at = _certificate(data, at, version)
                chain.append(certificate)
            store.keys.append((key, chain))
        else:
            raise ValueError("is a damaged JKS file")
    return store


def _certificate(data: bytes, at: int, version: int) -> tuple[bytes, int]:
    if version == 2:
        _, at = _chunk(data, at, ">H")  # its type, always X.509
    return _chunk(data, at, ">i")


def _chunk(data: bytes, at: int, size: str) -> tuple[bytes, int]:
    """Return bytes after their length, and the index after them."""
    (length,) = unpack_from(size, data, at)
    start = at + Struct(size).size
    if not 0 <= length <= len(data) - start:
        raise IndexError
    return data[start : start + length], start + length


def decrypt_key(encrypted_key: bytes, password: str) -> bytes:
    """Return the PKCS #8 key (DER) of an encrypted key. Raises WrongPassword."""
    # EncryptedPrivateKeyInfo (RFC 5208 §6): a sequence of the algorithm and an octet string, which stands last.
    start, _ = _element(encrypted_key, 0)
    _, at = _element(encrypted_key, start)
    start, end = _element(encrypted_key, at)
    salt, body, check = (
        encrypted_key[start : start + _DIGEST],
        encrypted_key[start + _DIGEST : end - _DIGEST],
        encrypted_key[end - _DIGEST :],
    )
    secret = password.encode("utf-16-be")
    stream, block = b"", salt
    while len(stream) < len(body):
        block = hashlib.sha1(secret + block).digest()
        stream += block
    key = bytes(key_byte ^ mask_byte for key_byte, mask_byte in zip(body, stream, strict=False))
    if not compare_digest(hashlib.sha1(secret + key).digest(), check):
        raise WrongPassword("the key's password is wrong")
    return key


def _element(data: bytes, at: int) -> tuple[int, int]:
    """Return the start and the end of the content of a DER element (X.690 §8.1)."""
    try:
        length, start = data[at + 1], at + 2
        if length & 0x80:
            start += length & 0x7F
            length = int.from_bytes(data[at + 2 : start], "big")
    except IndexError:
        raise ValueError("is a damaged JKS file") from None
    return start, start + length
