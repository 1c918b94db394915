"""Decoys have the form of the verifiers of a users file."""

from __future__ import annotations

import hashlib

import pytest

from kproxy.users import decoys
from kproxy.users.decoys import VerifierForm, common_forms, decoy, select_verifier
from kproxy.users.document import User
from kproxy.users.verifier import HASHES, ScramVerifier

# In the form of the salts that brokers make.
_KAFKAS_SALT = b"4h2fq7p3v1l0m9s8d6k5j2x7z"


def user(name: str, salt: bytes, iterations: int, mechanism: str = "SCRAM-SHA-256") -> User:
    key = bytes(hashlib.new(HASHES[mechanism]).digest_size)
    return User(name, {mechanism: ScramVerifier(mechanism, salt, iterations, key, key)}, {})


@pytest.mark.parametrize("mechanism", HASHES)
@pytest.mark.parametrize(
    "form", [VerifierForm(), VerifierForm(8192, 16), VerifierForm(4096, 0), VerifierForm(9000, 99)]
)
def test_a_decoy_has_the_form_that_it_is_asked_for(mechanism: str, form: VerifierForm) -> None:
    for number in range(200):
        assert VerifierForm.of(decoy(mechanism, f"user {number}", b"secret", form)) == form


def test_a_decoy_is_the_same_for_a_name_and_differs_between_names_mechanisms_and_secrets() -> None:
    form = VerifierForm()
    one = decoy("SCRAM-SHA-512", "alice", b"secret", form)
    assert one == decoy("SCRAM-SHA-512", "alice", b"secret", form)
    others = [
        decoy("SCRAM-SHA-512", "bob", b"secret", form),
        decoy("SCRAM-SHA-256", "alice", b"secret", form),
        decoy("SCRAM-SHA-512", "alice", b"other", form),
    ]
    assert len({one.salt, *(other.salt for other in others)}) == 4


def test_the_form_is_that_of_most_users() -> None:
    users = [user("a", b"x" * 16, 4096), user("b", _KAFKAS_SALT, 8192), user("c", _KAFKAS_SALT[:-1], 8192)]
    users.append(user("d", b"\xff" * 24, 5000, "SCRAM-SHA-512"))
    assert common_forms(users) == {"SCRAM-SHA-256": VerifierForm(8192, 0), "SCRAM-SHA-512": VerifierForm(5000, 24)}
    assert common_forms([]) == {}


@pytest.mark.parametrize("mechanism", [None, "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_decoy_is_made_for_known_users_too(mechanism: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a client could tell by the time of the answer who is a user (bench.logins measures it)."""
    made: list[str] = []

    def count(mechanism: str, name: str, secret: bytes, form: VerifierForm) -> ScramVerifier:
        made.append(name)
        return decoy(mechanism, name, secret, form)

    monkeypatch.setattr(decoys, "decoy", count)
    own = {name: ScramVerifier.from_password(name, "x") for name in HASHES}
    alice = User("alice", own, {})
    forms = common_forms([alice])
    assert select_verifier(alice, forms, mechanism, "alice", b"s") == (own[mechanism or "SCRAM-SHA-512"], True)
    verifier, is_known = select_verifier(None, forms, mechanism, "bob", b"s")
    assert (verifier.mechanism, is_known) == (mechanism or "SCRAM-SHA-512", False)
    assert made == ["alice", "bob"]
