"""Subjects of certificates; test_oracle_principals compares them with Java's."""

from __future__ import annotations

import contextlib

import trustme
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_certificate
from hypothesis import given
from hypothesis import strategies as st

from kproxy.net.tls.subject import read_subject

CERTIFICATE = load_pem_x509_certificate(
    trustme.CA().issue_cert(common_name="a,b", organization_name="O").cert_chain_pems[0].bytes()
).public_bytes(Encoding.DER)


def test_the_last_part_comes_first() -> None:
    assert read_subject(CERTIFICATE).startswith("CN=a\\,b,OU=Testing cert ")
    assert read_subject(CERTIFICATE).endswith(",O=O")


@given(st.binary(max_size=200))
def test_garbage(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        read_subject(data)


@given(st.integers(0, len(CERTIFICATE) - 1), st.integers(0, 255))
def test_one_wrong_byte(at: int, byte: int) -> None:
    with contextlib.suppress(ValueError):
        read_subject(CERTIFICATE[:at] + bytes((byte,)) + CERTIFICATE[at + 1 :])
    with contextlib.suppress(ValueError):
        read_subject(CERTIFICATE[:at])
