"""Key stores of Java, put together by hand: tests with the real `keytool` are in tests/integration."""

from __future__ import annotations

import contextlib
import hashlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.net.tls import jks
from kproxy.net.tls.jks import WrongPassword, decrypt_key, read_key_store

PASSWORD = "changeit"
KEY, LEAF, ROOT = b"a key (PKCS #8)", b"the certificate of a node", b"that of its authority"


def sized(content: bytes, size: str = ">i") -> bytes:
    return struct.pack(size, len(content)) + content


def certificate(content: bytes, version: int) -> bytes:
    return (sized(b"X.509", ">H") if version == 2 else b"") + sized(content)


def store(version: int = 2, password: str = PASSWORD) -> bytes:
    """A store with a key, whose chain has two certificates, and with a trusted certificate."""
    chain = struct.pack(">i", 2) + certificate(LEAF, version) + certificate(ROOT, version)
    key = struct.pack(">i", 1) + sized(b"node", ">H") + bytes(8) + sized(encrypted(KEY)) + chain
    trusted = struct.pack(">i", 2) + sized(b"ca", ">H") + bytes(8) + certificate(ROOT, version)
    data = jks.MAGIC + struct.pack(">ii", version, 2) + key + trusted
    return data + hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + data).digest()


def element(tag: int, content: bytes) -> bytes:
    """A DER element with a long form of its length, as keytool has it."""
    return bytes((tag, 0x82)) + sized(content, ">H")


def encrypted(key: bytes, password: str = PASSWORD) -> bytes:
    secret, salt = password.encode("utf-16-be"), bytes(range(20))
    stream, block = b"", salt
    while len(stream) < len(key):
        block = hashlib.sha1(secret + block).digest()
        stream += block
    body = bytes(one ^ other for one, other in zip(key, stream, strict=False))
    return element(
        0x30, element(0x30, b"the algorithm") + element(4, salt + body + hashlib.sha1(secret + key).digest())
    )


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("password", [PASSWORD, None])
def test_the_key_and_the_certificates_of_a_store(version: int, password: str | None) -> None:
    """Certificates need no password."""
    found = read_key_store(store(version), password)
    ((encrypted_key, chain),) = found.keys
    assert (chain, found.certificates) == ([LEAF, ROOT], [ROOT])
    assert decrypt_key(encrypted_key, PASSWORD) == KEY


def test_a_long_key_is_decrypted_whole() -> None:
    key = bytes(range(256)) * 9
    assert decrypt_key(encrypted(key), PASSWORD) == key


def test_a_wrong_password_is_said_to_be_wrong() -> None:
    with pytest.raises(WrongPassword, match="the password is wrong, or the file is damaged"):
        read_key_store(store(), "other")
    with pytest.raises(WrongPassword, match="the key's password is wrong"):
        decrypt_key(encrypted(KEY, "another"), PASSWORD)


def test_a_store_of_an_unknown_version_is_refused() -> None:
    with pytest.raises(ValueError, match="is a JKS file of version 3; known are 1 and 2"):
        read_key_store(store(3), PASSWORD)


def test_a_store_that_is_cut_off_is_damaged() -> None:
    whole = store()[:-20]
    for end in range(len(jks.MAGIC), len(whole)):
        with pytest.raises(ValueError, match="is a damaged JKS file"):
            read_key_store(whole[:end], None)


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), min_size=1, max_size=3))
def test_a_damaged_store_raises_errors_for_the_user_only(changes: list[tuple[int, int]]) -> None:
    data = bytearray(store())
    for at, byte in changes:
        data[len(jks.MAGIC) + at % (len(data) - len(jks.MAGIC))] = byte
    with contextlib.suppress(ValueError):
        for encrypted_key, _ in read_key_store(bytes(data), None).keys:
            decrypt_key(encrypted_key, PASSWORD)
