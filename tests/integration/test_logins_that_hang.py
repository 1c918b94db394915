"""Whatever a login waits for, it holds up neither the end of kproxy nor, for ever, a client."""

from __future__ import annotations

import os
import signal
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.harness.clients.rawclient import RawClient
from tests.harness.process import Kproxy, wait_until
from tests.harness.servers.kdc import Kdc, needs_kdc
from tests.harness.servers.peers import Peer, silent

pytestmark = pytest.mark.integration

Start = Callable[..., Kproxy]
SALT_AND_COUNT = b"more,s=QSXCR+Q6sek8bf92,i=%d"


class Broker:
    """Asks for a login, and says to the first token what it is told to. `asked`: a token has come."""

    def __init__(self, iterations: int = 4096) -> None:
        self._iterations = iterations
        self.asked = threading.Event()

    def __call__(self, connection: socket.socket) -> None:
        while size := connection.recv(4, socket.MSG_WAITALL):
            request = connection.recv(struct.unpack(">i", size)[0], socket.MSG_WAITALL)
            key, _, correlation_id = struct.unpack_from(">hhi", request)
            if key == 18:
                body = struct.pack(">hi", 0, 2) + struct.pack(">hhhhhh", 17, 0, 1, 36, 0, 0)
            elif key == 17:
                body = struct.pack(">hi", 0, 0)
            else:
                self.asked.set()
                token = b"r=" + request.rpartition(b"r=")[2] + SALT_AND_COUNT % self._iterations
                body = struct.pack(">hhi", 0, -1, len(token)) + token
            connection.sendall(struct.pack(">ii", 4 + len(body), correlation_id) + body)


@pytest.fixture
def ended(own_kproxy: Start) -> Callable[..., Kproxy]:
    """Starts kproxy, waits until its login hangs, or it says so, tells it to stop, and waits until it has."""

    def end(reached: Callable[[], object], broker: Broker, *flags: str, says: str = "") -> Kproxy:
        with Peer(broker) as peer:
            proxy = own_kproxy(peer.address, *flags, "--drain-timeout", "0s", ready=False)
            wait_until(lambda: "listening on" in proxy.log, "kproxy listens")
            with RawClient(proxy.bootstrap) as client:
                client.send(18, 0)
                wait_until(reached, "the login waits")
                wait_until(lambda: says in proxy.log, says)
                proxy.process.send_signal(signal.SIGTERM)
                assert client.wait_closed()
                assert proxy.process.wait(20) == 0, "what it waits for takes longer"
        return proxy

    return end


def test_a_password_file_that_is_a_pipe(ended: Callable[..., Kproxy], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ExitStack() as held:

        def is_read() -> bool:
            """It may be opened for writing as soon as somebody wants to read."""
            try:
                held.callback(os.close, os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
            except OSError:
                return False
            return True

        ended(is_read, Broker(), "--sasl", "PLAIN", "--sasl-username", "u", "--sasl-password-file", str(pipe))


@pytest.mark.parametrize("words", ["sleep 3600; :", "sleep 3600 & wait"], ids=["itself", "its child"])
def test_a_password_command_that_hangs(ended: Callable[..., Kproxy], tmp_path: Path, words: str) -> None:
    began, child = tmp_path / "began", tmp_path / "child"
    script = tmp_path / "script"
    script.write_text(f"echo $$ > {child}\ntouch {began}\n{words.replace('&', f'& echo $! > {child};')}\n")
    command = f"sh {script}"
    try:
        ended(began.exists, Broker(), "--sasl", "PLAIN", "--sasl-username", "u", "--sasl-password-command", command)
    finally:
        if words.endswith("wait"):
            os.kill(int(child.read_text()), signal.SIGKILL)


def test_a_token_endpoint_that_trickles(ended: Callable[..., Kproxy], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KPROXY_SASL_PASSWORD", "secret")
    asked, stop = threading.Event(), threading.Event()

    def trickles(connection: socket.socket) -> None:
        connection.recv(65536)
        asked.set()
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while not stop.wait(1):
            connection.sendall(b" ")

    with Peer(trickles) as endpoint:
        url = f"http://{endpoint.address}/token"
        ended(asked.is_set, Broker(), "--sasl", "OAUTHBEARER", "--oauth-token-url", url, "--sasl-username", "u")
        stop.set()


@needs_kdc
def test_a_kdc_that_is_silent(ended: Callable[..., Kproxy], monkeypatch: pytest.MonkeyPatch) -> None:
    with Kdc() as kdc, ExitStack() as held:
        kdc.principal("alice", "alice")
        keytab = kdc.keytab("alice")
        for name, value in kdc.environment.items():
            monkeypatch.setenv(name, value)
        kdc_that_is_not = held.enter_context(Peer(silent))
        config = kdc.directory / "krb5.conf"
        text = config.read_text()
        old = text.partition("\n  kdc = ")[2].split()[0]
        config.write_text(text.replace(old, kdc_that_is_not.address))
        flags = ("--sasl", "GSSAPI", "--sasl-username", "alice", "--kerberos-keytab", str(keytab))
        ended(lambda: kdc_that_is_not.accepted, Broker(), *flags)


@pytest.mark.parametrize("iterations", [999_999, 10_000_000])
def test_a_broker_that_wants_much_hashing(
    iterations: int, ended: Callable[..., Kproxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KPROXY_SASL_PASSWORD", "secret")
    broker, says = Broker(iterations), ""
    if iterations == 10_000_000:
        says = "the broker demands 10000000 iterations of SCRAM-SHA-512, more than the 1000000"
    ended(broker.asked.is_set, broker, "--sasl", "SCRAM-SHA-512", "--sasl-username", "u", says=says)
