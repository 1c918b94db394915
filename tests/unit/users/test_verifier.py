"""Verifiers of passwords, against the vectors of the RFCs, scramp's own server, and text that is none."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re

import pytest
from scramp import ScramClient, ScramMechanism

from kproxy.users.verifier import HASHES, ScramVerifier

# RFC 7677 §3: user "user", password "pencil".
RFC_SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
RFC_CLIENT_FIRST = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
RFC_NONCE = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
RFC_PROOF = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
RFC_SERVER = "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
# Each character that SASLprep (RFC 4013) would replace or refuse, and those that mean something in SCRAM.
PASSWORDS = ["pencil", "p,=w", "ª\u00ad\u2168", "日本", " "]


def test_the_vector_of_the_rfc() -> None:
    verifier = ScramVerifier.from_password("SCRAM-SHA-256", "pencil", RFC_SALT, 4096)
    server_first = f"r={RFC_NONCE},s={base64.b64encode(RFC_SALT).decode()},i=4096"
    message = f"{RFC_CLIENT_FIRST[3:]},{server_first},c=biws,r={RFC_NONCE}".encode()
    signature = hmac.digest(verifier.stored_key, message, "sha256")
    client_key = bytes(a ^ b for a, b in zip(base64.b64decode(RFC_PROOF), signature, strict=True))
    assert hashlib.sha256(client_key).digest() == verifier.stored_key
    assert base64.b64encode(hmac.digest(verifier.server_key, message, "sha256")).decode() == RFC_SERVER


@pytest.mark.parametrize("mechanism", HASHES)
def test_scramps_client_logs_in_at_scramps_server_with_our_verifier(mechanism: str) -> None:
    verifier = ScramVerifier.from_password(mechanism, "pencil", iterations=5000)
    auth = (verifier.salt, verifier.stored_key, verifier.server_key, verifier.iterations)
    server = ScramMechanism(mechanism).make_server(lambda name: auth)
    client = ScramClient([mechanism], "alice", "pencil")
    server.set_client_first(client.get_client_first())
    client.set_server_first(server.get_server_first())
    server.set_client_final(client.get_client_final())
    client.set_server_final(server.get_server_final())


@pytest.mark.parametrize("mechanism", HASHES)
@pytest.mark.parametrize("password", PASSWORDS)
def test_text_and_back(mechanism: str, password: str) -> None:
    verifier = ScramVerifier.from_password(mechanism, password)
    assert ScramVerifier.parse(mechanism, verifier.text()) == verifier
    assert verifier.is_of(password)
    assert not verifier.is_of(password + "x")
    assert ScramVerifier.from_password(mechanism, password) != verifier  # the salt is new


def test_it_shows_no_secret() -> None:
    verifier = ScramVerifier.from_password("SCRAM-SHA-256", "pencil", RFC_SALT)
    assert "stored_key" not in repr(verifier)
    assert base64.b64encode(verifier.stored_key).decode() not in f"{verifier} {verifier!r}"


GOOD = ScramVerifier.from_password("SCRAM-SHA-256", "pencil", RFC_SALT).text()
SHAPE = "; allowed: salt=BASE64,stored_key=BASE64,server_key=BASE64,iterations=NUMBER"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has other fields" + SHAPE),
        ("secret", "has other fields" + SHAPE),
        (f"{GOOD},", "has other fields" + SHAPE),
        (f"{GOOD},iterations=4096", "has other fields" + SHAPE),
        (GOOD.replace("salt=", "salz="), "has other fields" + SHAPE),
        (GOOD.rpartition(",")[0], "has no iterations" + SHAPE),
        (GOOD.replace("=4096", "=-4096"), "has iterations that are no number" + SHAPE),
        (GOOD.replace("=4096", "=٤٠٩٦"), "has iterations that are no number" + SHAPE),
        (GOOD.replace("=4096", "=4095"), "has 4095 iterations; allowed: 4096 to 1000000"),
        (GOOD.replace("=4096", "=1000001"), "has 1000001 iterations; allowed: 4096 to 1000000"),
        (GOOD.replace("=4096", "=" + "9" * 5000), "has iterations that are no number" + SHAPE),
        (GOOD.replace("W22Z", "W2:Z"), "has bytes that are not base64" + SHAPE),
        (GOOD.replace("W22Z", "W2éZ"), "has bytes that are not base64" + SHAPE),
        (GOOD.replace("W22ZaJ0SNY7soEsUEjb6gQ==", ""), "has a salt of 0 bytes; allowed: 1 to 1024"),
        (GOOD.replace("stored_key=", "stored_key=AAAA"), "has a stored_key of 35 bytes; SCRAM-SHA-256 has 32"),
    ],
)
def test_text_that_is_none(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        ScramVerifier.parse("SCRAM-SHA-256", text)


def test_another_mechanism() -> None:
    with pytest.raises(ValueError, match="allowed: SCRAM-SHA-256, SCRAM-SHA-512"):
        ScramVerifier.parse("SCRAM-SHA-1", GOOD)
    with pytest.raises(ValueError, match="allowed: SCRAM-SHA-256, SCRAM-SHA-512"):
        ScramVerifier.from_password("PLAIN", "pencil")
    with pytest.raises(ValueError, match="has 3 iterations"):
        ScramVerifier.from_password("SCRAM-SHA-256", "pencil", iterations=3)
    with pytest.raises(ValueError, match="SCRAM-SHA-512 has 64"):
        ScramVerifier.parse("SCRAM-SHA-512", GOOD)
