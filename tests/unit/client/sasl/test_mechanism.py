"""The tokens, against those of the RFCs."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from scramp import ScramMechanism

from kproxy.base.errors import UpstreamError
from kproxy.client.sasl.mechanism import Mechanism, OAuthBearer, Plain, Scram

NONCE = "rOprNGfwEbeRWgbNEkqO"
# RFC 7677 §3
FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def scram() -> Scram:
    return Scram("SCRAM-SHA-256", "user", "pencil", NONCE)


def test_scram_sha_256_of_rfc_7677() -> None:
    one = scram()
    assert one.step(b"") == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert one.step(FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert not one.finished
    assert one.step(FINAL) is None
    assert one.finished


@pytest.mark.parametrize(("name", "algorithm"), [("SCRAM-SHA-256", "sha256"), ("SCRAM-SHA-512", "sha512")])
def test_scram_takes_names_and_passwords_as_they_are(name: str, algorithm: str) -> None:
    """Escaped as RFC 5802 §5.1 says; not normalised, as Kafka does not. Computed by hand."""
    user, password = "a=b,ª😀", "p,ª😀\u00a0"
    one = Scram(name, user, password, "abc")
    first = (one.step(b"") or b"").decode()
    assert first == "n,,n=a=3Db=2Cª😀,r=abc"
    challenge = f"r=abcdef,s={base64.b64encode(b'0123456789abcdef').decode()},i=4096"
    final = (one.step(challenge.encode()) or b"").decode()
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), b"0123456789abcdef", 4096)
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    spoken = f"{first[3:]},{challenge},c=biws,r=abcdef".encode()
    signature = hmac.digest(hashlib.new(algorithm, client_key).digest(), spoken, algorithm)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    assert final == f"c=biws,r=abcdef,p={proof}"
    verifier = hmac.digest(hmac.digest(salted, b"Server Key", algorithm), spoken, algorithm)
    assert one.step(b"v=" + base64.b64encode(verifier)) is None
    assert one.finished


def test_scram_against_a_server() -> None:
    """scramp's own server side agrees, with a salt and a nonce of its own."""
    mechanism = ScramMechanism("SCRAM-SHA-512")
    known = mechanism.make_auth_info("pencil", iteration_count=8192)
    server = mechanism.make_server(lambda user: known if user == "user" else None)
    one = Scram("SCRAM-SHA-512", "user", "pencil")
    server.set_client_first((one.step(b"") or b"").decode())
    server.set_client_final((one.step(server.get_server_first().encode()) or b"").decode())
    assert one.step(server.get_server_final().encode()) is None
    assert one.finished


@pytest.mark.parametrize(
    "challenge",
    [
        FIRST.replace(b"4096", b"4095"),
        FIRST.replace(b"r=rO", b"r=xx"),
        FIRST.replace(b"W22Z", b"*"),
        b"m=ext," + FIRST,
        b"e=other-error",
        b"",
        b"\xff",
        b"r=" + b"\0" * 10_000,
    ],
)
def test_a_broker_that_does_not_keep_to_scram(challenge: bytes) -> None:
    one = scram()
    one.step(b"")
    with pytest.raises(UpstreamError, match="failed SCRAM-SHA-256") as caught:
        one.step(challenge)
    assert "pencil" not in str(caught.value)


@pytest.mark.parametrize("final", [b"v=" + b"A" * 43 + b"=", b"v=", b"", b"e=invalid-proof"])
def test_a_broker_that_does_not_know_the_password(final: bytes) -> None:
    one = scram()
    one.step(b"")
    one.step(FIRST)
    with pytest.raises(UpstreamError, match="the server is not the broker of this user"):
        one.step(final)
    assert not one.finished


def test_plain_of_rfc_4616() -> None:
    one = Plain("tim", "tanstaaftanstaaf")
    assert one.step(b"") == b"\0tim\0tanstaaftanstaaf"
    assert not one.finished
    assert one.step(b"") is None
    assert one.finished


def test_oauthbearer_of_rfc_7628() -> None:
    one = OAuthBearer("vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==", {"logicalCluster": "lkc-1", "b": "2"})
    assert one.step(b"") == (
        b"n,,\x01auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\x01logicalCluster=lkc-1\x01b=2\x01\x01"
    )
    assert one.step(b"") is None
    assert one.finished


def test_oauthbearer_that_is_refused() -> None:
    one = OAuthBearer("token", {})
    assert one.step(b"") == b"n,,\x01auth=Bearer token\x01\x01"
    assert one.step(b'{"status":"invalid_token"}') == b"\x01"
    assert not one.finished


@pytest.mark.parametrize(
    "made", [Plain("u", "hunter2"), OAuthBearer("hunter2", {}), Scram("SCRAM-SHA-256", "u", "hunter2")]
)
def test_a_mechanism_does_not_show_its_secret(made: Mechanism) -> None:
    assert "hunter2" not in f"{made!r} {made}"


@pytest.mark.parametrize("count", [1_000_001, 10_000_000, 99_999_999_999, 10**19, 10**30])
def test_scram_does_not_hash_for_as_long_as_a_broker_likes(count: int) -> None:
    one = scram()
    one.step(b"")
    with pytest.raises(
        UpstreamError, match=r"the broker demands [0-9]+ iterations of SCRAM-SHA-256, more than the 1000000"
    ):
        one.step(b"r=%s3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=%d" % (NONCE.encode(), count))
