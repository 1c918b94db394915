"""Logins of clients at kproxy: what they cost, and whether their time tells users from strangers.

    python -m bench.logins [LOGINS]

It prints, for each mechanism, logins per second of one core and the CPU for each, as kproxy evaluates them in memory.
Then it compares the time of a wrong password with that of an unknown user: medians, and the share of pairs in which the
unknown user took longer (one half if nothing can be told apart). The pause before an answer is the same for both, and
is left out. Last, it prints kproxy's CPU for connections with a login and without one, in front of a real broker.
"""

# ruff: noqa: T201

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.machine import cpu_seconds
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.messages import encode_request, read_response
from kproxy.protocol.wire.primitives import INT32
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


def _first(user: str) -> str:
    return f"n={user},r=abcdefgh"


def _last(mechanism: str, user: str, challenge: str, salted: bytes) -> bytes:
    """Return a client's proof. It has derived its key before, as clients that log in again have."""
    hash_name = HASHES[mechanism]
    unproved = f"c=biws,{challenge.split(',')[0]}"
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    stored = hashlib.new(hash_name, client_key).digest()
    signature = hmac.digest(stored, f"{_first(user)},{challenge},{unproved}".encode(), hash_name)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    return f"{unproved},p={proof}".encode()


async def _scram(server: ServerMechanism, mechanism: str, user: str, salted: bytes) -> None:
    challenge = await server.evaluate(f"n,,{_first(user)}".encode())
    assert isinstance(challenge, Challenge)
    await server.evaluate(_last(mechanism, user, challenge.token.decode(), salted))


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


class _Client:
    """One connection, which waits for each answer."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.sock = socket.create_connection((host, int(port)))

    def ask(self, key: ApiKey, version: int, fields: dict[str, object]) -> dict[str, Any]:
        self.sock.sendall(encode_request(key, version, 1, fields))
        answer = b""
        while len(answer) < 4 or len(answer) < 4 + INT32.unpack_from(answer)[0]:
            answer += self.sock.recv(65536)
        return read_response(key, version, answer, 8)


def _connect(address: str, mechanism: str, salted: bytes) -> None:
    """Connect, log in, ask for the brokers, and disconnect."""
    client = _Client(address)
    client.ask(ApiKey.API_VERSIONS, 2, {})
    if mechanism:
        client.ask(ApiKey.SASL_HANDSHAKE, 1, {"Mechanism": mechanism})
        first = client.ask(ApiKey.SASL_AUTHENTICATE, 1, {"AuthBytes": f"n,,{_first('alice')}".encode()})
        last = _last(mechanism, "alice", first["AuthBytes"].decode(), salted)
        assert not client.ask(ApiKey.SASL_AUTHENTICATE, 1, {"AuthBytes": last})["ErrorCode"]
    client.ask(ApiKey.METADATA, 1, {"Topics": []})
    client.sock.close()


def _connections(count: int) -> None:
    """Print kproxy's CPU for a connection without a login at kproxy, and with one."""
    from kproxy.dev.devcluster import DevCluster

    with DevCluster(1) as cluster, tempfile.TemporaryDirectory() as directory:
        for mechanism in ("", *HASHES):
            words = [
                sys.executable,
                "-m",
                "kproxy",
                "run",
                cluster.bootstrap,
                "--listen",
                "127.0.0.1:0",
                "--admin",
                "off",
            ]
            salted = b""
            if mechanism:
                verifier = ScramVerifier.from_password(mechanism, _PASSWORD)
                salted = hashlib.pbkdf2_hmac(HASHES[mechanism], _PASSWORD.encode(), verifier.salt, verifier.iterations)
                users = Path(directory, mechanism)
                users.touch(0o600)
                users.write_text(f"users:\n  alice:\n    {mechanism}: {verifier.text()}\n")
                words += ["--client-sasl", mechanism, "--users-file", str(users)]
            with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as kproxy:
                assert kproxy.stderr is not None
                address = (
                    next(line for line in kproxy.stderr if "bootstrap.servers=" in line).rpartition("=")[2].strip()
                )
                for _ in range(50):
                    _connect(address, mechanism, salted)
                began = cpu_seconds([kproxy.pid])
                for _ in range(count):
                    _connect(address, mechanism, salted)
                used = (cpu_seconds([kproxy.pid]) - began) / count
                kproxy.kill()
            print(f"a connection with {mechanism or 'no login':14} {used * 1e3:7.2f} ms CPU of kproxy")


async def _main(count: int) -> None:
    for mechanism in (*HASHES, "PLAIN"):
        await _measure(mechanism, count if mechanism != "PLAIN" else max(20, count // 20))


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
    asyncio.run(_main(number))
    _connections(number // 4)
