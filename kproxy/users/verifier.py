"""`ScramVerifier`: how the server of a SCRAM login verifies a password that it does not have (RFC 5802 §3). Pure.

Its text is the one in which Kafka keeps it in ZooKeeper: `salt=…,stored_key=…,server_key=…,iterations=4096`, with the
bytes in base64 (`ScramCredentialUtils` in Kafka).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The mechanisms that Kafka has, and the hash function of each."""
# RFC 7677 §4 and Kafka demand so many; the upper limit is the one of kproxy's own logins (`client.sasl.mechanism`).
LEAST_ITERATIONS, MOST_ITERATIONS = 4096, 1_000_000
_LONGEST_SALT = 1024
NEW_SALT = 24
_FIELDS = ("salt", "stored_key", "server_key", "iterations")
_NUMBER = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)


@dataclass(frozen=True, slots=True, repr=False)
class ScramVerifier:
    """The verifier of one password for one mechanism. Raises ValueError, with a text for the user, if it can be none.

    It is a secret: with it, a server could pass for a broker that knows the password, and try passwords at leisure.
    """

    mechanism: str
    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __post_init__(self) -> None:
        if self.mechanism not in HASHES:
            raise ValueError(f"is for no mechanism that kproxy has; allowed: {', '.join(HASHES)}")
        if not LEAST_ITERATIONS <= self.iterations <= MOST_ITERATIONS:
            raise ValueError(f"has {self.iterations} iterations; allowed: {LEAST_ITERATIONS} to {MOST_ITERATIONS}")
        if not 1 <= len(self.salt) <= _LONGEST_SALT:
            raise ValueError(f"has a salt of {len(self.salt)} bytes; allowed: 1 to {_LONGEST_SALT}")
        size = hashlib.new(HASHES[self.mechanism]).digest_size
        for name, key in (("stored_key", self.stored_key), ("server_key", self.server_key)):
            if len(key) != size:
                raise ValueError(f"has a {name} of {len(key)} bytes; {self.mechanism} has {size}")

    @classmethod
    def from_password(
        cls, mechanism: str, password: str, salt: bytes | None = None, iterations: int = LEAST_ITERATIONS
    ) -> ScramVerifier:
        """Return the verifier of a password, as Kafka computes it: without SASLprep (RFC 5802 §2.2).

        It takes milliseconds, and seconds for the most iterations. Raises ValueError.
        """
        salt = secrets.token_bytes(NEW_SALT) if salt is None else salt
        if mechanism not in HASHES or not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
            return cls(mechanism, salt, iterations, b"", b"")  # which raises
        name = HASHES[mechanism]
        salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", name)
        server_key = hmac.digest(salted, b"Server Key", name)
        return cls(mechanism, salt, iterations, hashlib.new(name, client_key).digest(), server_key)

    def is_of(self, password: str) -> bool:
        """Return whether this is the verifier of a password, in a time that does not depend on where they differ."""
        computed = self.from_password(self.mechanism, password, self.salt, self.iterations)
        return hmac.compare_digest(computed.stored_key, self.stored_key)

    @classmethod
    def parse(cls, mechanism: str, text: str) -> ScramVerifier:
        """Read the text in which Kafka keeps it in ZooKeeper. Raises ValueError, without the text in it."""
        fields: dict[str, str] = {}
        for part in text.split(","):
            name, _, value = part.strip().partition("=")
            if name not in _FIELDS or name in fields:
                raise ValueError(_shape("has other fields"))
            fields[name] = value
        if len(fields) < len(_FIELDS):
            raise ValueError(_shape(f"has no {next(name for name in _FIELDS if name not in fields)}"))
        if not _NUMBER.fullmatch(fields["iterations"]):
            raise ValueError(_shape("has iterations that are no number"))
        try:
            keys = {name: base64.b64decode(fields[name], validate=True) for name in _FIELDS[:3]}
        except (binascii.Error, ValueError):
            raise ValueError(_shape("has bytes that are not base64")) from None
        return cls(mechanism, iterations=int(fields["iterations"]), **keys)

    def text(self) -> str:
        """Return the text that `parse` reads."""
        values = [base64.b64encode(key).decode() for key in (self.salt, self.stored_key, self.server_key)]
        return ",".join(f"{name}={value}" for name, value in zip(_FIELDS, [*values, self.iterations], strict=True))


def _shape(problem: str) -> str:
    return f"{problem}; allowed: salt=BASE64,stored_key=BASE64,server_key=BASE64,iterations=NUMBER"
