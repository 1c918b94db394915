"""Logins of clients at kproxy: what they cost, and whether their time tells users from strangers.

    python -m bench.logins [LOGINS]

It prints, for each mechanism, logins per second of one core and the CPU for each, as kproxy evaluates them in memory.
Then it compares the time of a wrong password with that of an unknown user: medians, and the share of pairs in which the
unknown user took longer (one half if nothing can be told apart). The pause before an answer is the same for both, and
is left out.
"""

# ruff: noqa: T201

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import random
import statistics
import sys
import time
from collections.abc import Callable

from kproxy.proxy.login.outcomes import Challenge, ClientLoginFailed, ServerMechanism
from kproxy.proxy.login.plain import PlainServer
from kproxy.proxy.login.scram import ScramServer
from kproxy.users.decoys import common_forms, select_verifier
from kproxy.users.document import User
from kproxy.users.verifier import HASHES, ScramVerifier

_PASSWORD = "the-password-of-alice"
_SECRET = b"of this process"


def _verifier_of(mechanism: str | None) -> Callable[[str], tuple[ScramVerifier, bool]]:
    kind = mechanism or "SCRAM-SHA-512"
    user = User("alice", {kind: ScramVerifier.from_password(kind, _PASSWORD)}, {})
    users, forms = {"alice": user}, common_forms([user])
    return lambda name: select_verifier(users.get(name), forms, mechanism, name, _SECRET)


async def _is_of(verifier: ScramVerifier, password: str) -> bool:
    return verifier.is_of(password)


async def _scram(server: ServerMechanism, mechanism: str, user: str, salted: bytes) -> None:
    """Go through a login whose client has derived its key before, as clients that log in again have."""
    hash_name = HASHES[mechanism]
    bare = f"n={user},r=abcdefgh"
    challenge = await server.evaluate(f"n,,{bare}".encode())
    assert isinstance(challenge, Challenge)
    first = challenge.token.decode()
    unproved = f"c=biws,{first.split(',')[0]}"
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    stored = hashlib.new(hash_name, client_key).digest()
    signature = hmac.digest(stored, f"{bare},{first},{unproved}".encode(), hash_name)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    await server.evaluate(f"{unproved},p={proof}".encode())


async def _timed(mechanism: str, server: ServerMechanism, user: str, password: str, salted: bytes) -> float:
    began = time.perf_counter()
    try:
        if mechanism == "PLAIN":
            await server.evaluate(f"\0{user}\0{password}".encode())
        else:
            await _scram(server, mechanism, user, salted)
    except ClientLoginFailed:
        pass
    return time.perf_counter() - began


async def _measure(mechanism: str, count: int) -> None:
    find = _verifier_of(mechanism if mechanism in HASHES else None)
    verifier, salted = find("alice")[0], b""
    if mechanism in HASHES:
        salted = hashlib.pbkdf2_hmac(HASHES[mechanism], _PASSWORD.encode(), verifier.salt, verifier.iterations)
    servers: list[ServerMechanism] = [
        ScramServer(mechanism, find) if mechanism in HASHES else PlainServer(find, _is_of) for _ in range(3 * count)
    ]
    began = time.process_time()
    for server in servers[:count]:
        await _timed(mechanism, server, "alice", _PASSWORD, salted)
    each = (time.process_time() - began) / count
    wrong: list[float] = []
    unknown: list[float] = []
    pairs = iter(servers[count:])
    for server in pairs:
        # In either order, so that neither has the warmer caches.
        sides = [("alice", wrong), ("mallory", unknown)]
        random.shuffle(sides)
        for (user, times), used in zip(sides, (server, next(pairs)), strict=True):
            times.append(await _timed(mechanism, used, user, "wrong", b"x" * 32))
    longer = sum(b > a for a, b in zip(wrong, unknown, strict=True)) / len(wrong)
    medians = [statistics.median(times) * 1e6 for times in (wrong, unknown)]
    print(
        f"{mechanism:14} {1 / each:9,.0f} logins/s of a core, {each * 1e6:8,.0f} µs each;  wrong password"
        f" {medians[0]:8,.1f} µs, unknown user {medians[1]:8,.1f} µs; the unknown user took longer in {longer:.1%}"
    )


async def _main(count: int) -> None:
    for mechanism in (*HASHES, "PLAIN"):
        await _measure(mechanism, count if mechanism != "PLAIN" else max(20, count // 20))


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]) if len(sys.argv) > 1 else 4000))
