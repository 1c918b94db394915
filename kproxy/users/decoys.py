"""Verifiers for users that do not exist, which tell a client no more than those of users that do. Pure.

The challenge of SCRAM shows the salt and the iterations, and PLAIN takes a time that depends on the iterations. So a
decoy has the form that most verifiers of the users file have.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kproxy.users.document import User
from kproxy.users.verifier import HASHES, LEAST_ITERATIONS, NEW_SALT, ScramVerifier

# Kafka's salts are random numbers of 130 bits in base 36, as text (`ScramFormatter.secureRandomString`).
_DIGITS = b"0123456789abcdefghijklmnopqrstuvwxyz"
_KAFKA_BITS = 130
_KAFKA_SALT = re.compile(rb"[0-9a-z]{18,26}")


@dataclass(frozen=True, slots=True)
class VerifierForm:
    """What a login shows of a verifier. `salt_size` is the number of random bytes; 0 means a salt as Kafka makes it."""

    iterations: int = LEAST_ITERATIONS
    salt_size: int = NEW_SALT

    @classmethod
    def of(cls, verifier: ScramVerifier) -> VerifierForm:
        """Return the form of a verifier."""
        is_kafkas = _KAFKA_SALT.fullmatch(verifier.salt)
        return cls(verifier.iterations, 0 if is_kafkas else len(verifier.salt))


def common_forms(users: Iterable[User]) -> dict[str, VerifierForm]:
    """Return the form that most verifiers of each mechanism have, for the mechanisms that these users have."""
    counts: dict[str, Counter[VerifierForm]] = {}
    for user in users:
        for mechanism, verifier in user.verifiers.items():
            counts.setdefault(mechanism, Counter())[VerifierForm.of(verifier)] += 1
    return {mechanism: counter.most_common(1)[0][0] for mechanism, counter in counts.items()}


def select_verifier(
    user: User | None, forms: Mapping[str, VerifierForm], mechanism: str | None, name: str, secret: bytes
) -> tuple[ScramVerifier, bool]:
    """Return a verifier of this user for a mechanism, or for any, and whether there is one.

    For an unknown user, `None`, it is a decoy. The decoy is made for a known user too: the answer to a client must take
    the same time for both, and it took 7 of 28 µs more for an unknown one.
    """
    allowed = tuple(HASHES)[::-1] if mechanism is None else (mechanism,)  # the strongest first
    of_user = {} if user is None else user.verifiers
    own = next((of_user[each] for each in allowed if each in of_user), None)
    wanted = next((each for each in allowed if each in forms), allowed[0])
    made = decoy(wanted, name, secret, forms.get(wanted, VerifierForm()))
    return (made, False) if own is None else (own, True)


def decoy(mechanism: str, name: str, secret: bytes, form: VerifierForm) -> ScramVerifier:
    """Return a verifier that no password has. It is always the same for this name, secret and form."""
    keyed = hmac.digest(secret, f"{mechanism}\0{name}".encode(), "sha512")
    if form.salt_size:
        salt = hashlib.shake_256(keyed).digest(form.salt_size)
    else:
        salt = _base36(int.from_bytes(keyed, "big") % 2**_KAFKA_BITS)
    key = keyed[: hashlib.new(HASHES[mechanism]).digest_size]
    return ScramVerifier(mechanism, salt, form.iterations, key, key)


def _base36(number: int) -> bytes:
    digits = bytearray()
    while number:
        number, digit = divmod(number, 36)
        digits.append(_DIGITS[digit])
    return bytes(reversed(digits)) or b"0"
