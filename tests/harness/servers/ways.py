"""Real servers on the path to a broker: sshd, microsocks (SOCKS5), tinyproxy (HTTP).

Each is a separate process on a free port of 127.0.0.1, and ends with the test.
"""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError
from kproxy.config import Hop
from kproxy.net.dial.dialer import Dialer
from tests.harness.process import wait_until
from tests.harness.servers.peers import Peer


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def tool(name: str) -> str:
    """Return the path of a program; skip the test without it (`make test` installs it)."""
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


class Server:
    """A process that listens on `port`; stopped with its children, and started again on the same port."""

    def __init__(self, command: Sequence[str], port: int, log: Path) -> None:
        self._command = command
        self._log = log
        self.port = port
        self.start()

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def start(self) -> None:
        with self._log.open("ab") as log:
            # In a session of its own: sshd has a process for each connection.
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)
        wait_until(self._listens, f"{self._command[0]} listens on {self.port}")

    def _listens(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"{self._command} ended with {self.process.returncode}:\n{self.log}")
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        """End it and every connection that it has."""
        children = _children(self.process.pid)
        self.process.kill()
        self.process.wait()
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)


def _children(pid: int) -> list[int]:
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout.split()
    pairs = [(int(child), int(parent)) for child, parent in zip(listed[::2], listed[1::2], strict=True)]
    found = [pid]
    for parent_seen in found:
        found += [child for child, parent in pairs if parent == parent_seen]
    return found[1:]


class Home:
    """A home directory with ~/.ssh: a new key, known_hosts and config."""

    def __init__(self, directory: Path) -> None:
        self.path = directory
        self.ssh = directory / ".ssh"
        self.ssh.mkdir(parents=True, mode=0o700)
        self.key = self.ssh / "id_ed25519"
        make_key(self.key)
        self.known_hosts = self.ssh / "known_hosts"
        self.config = self.ssh / "config"

    def trusts(self, server: Sshd, *names: str) -> None:
        """Add the server's host key, for its address and other names."""
        hosts = ",".join((f"[127.0.0.1]:{server.port}", *names))
        with self.known_hosts.open("a") as file:
            file.write(f"{hosts} {server.host_key}\n")


def make_key(path: Path, passphrase: str = "") -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", str(path)], check=True)


class Sshd(Server):
    """OpenSSH's server, for this user, with the keys that `home` has. `more` are lines of its configuration."""

    def __init__(self, directory: Path, home: Home, *more: str) -> None:
        directory.mkdir(parents=True)
        sshd = tool("sshd")
        make_key(directory / "host_key")
        self.host_key = " ".join((directory / "host_key.pub").read_text().split()[:2])
        (directory / "authorized_keys").write_text(home.key.with_suffix(".pub").read_text())
        port = free_port()
        config = directory / "sshd_config"
        lines = (
            *more,
            f"Port {port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {directory / 'host_key'}",
            f"AuthorizedKeysFile {directory / 'authorized_keys'}",
            f"PidFile {directory / 'pid'}",
            "UsePAM no",
            "StrictModes no",
            "PermitRootLogin yes",
            "PasswordAuthentication no",
            "LogLevel DEBUG1",
            "MaxStartups 100",
        )
        config.write_text("\n".join(lines) + "\n")
        if os.getuid() == 0:  # where sshd drops its privileges; the package's service makes it
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        super().__init__([sshd, "-D", "-e", "-f", str(config)], port, directory / "log")

    @property
    def logins(self) -> int:
        """Return the number of logins."""
        return self.log.count(f"Accepted publickey for {getpass.getuser()} ")


@contextlib.contextmanager
def running(server: Server) -> Iterator[Server]:
    try:
        yield server
    finally:
        server.stop()


def socks_proxy(directory: Path, user: str = "", password: str = "") -> Server:
    directory.mkdir(parents=True, exist_ok=True)
    port = free_port()
    login = ["-u", user, "-P", password] if user else []
    return Server([tool("microsocks"), "-i", "127.0.0.1", "-p", str(port), *login], port, directory / "log")


def http_proxy(directory: Path, user: str = "", password: str = "", *more: str) -> Server:
    directory.mkdir(parents=True, exist_ok=True)
    port = free_port()
    config = directory / "tinyproxy.conf"
    login = [f"BasicAuth {user} {password}"] if user else []
    lines = (f"Port {port}", "Listen 127.0.0.1", "Timeout 60", "MaxClients 100", "LogLevel Info", *login, *more)
    config.write_text("\n".join(lines) + "\n")
    return Server([tool("tinyproxy"), "-d", "-c", str(config)], port, directory / "log")


USER = "me"
PASSWORD = "s3cr3t-pass"
PASSWORD_IN_URL = "s3cr3t%2Dpass"


def echo(connection: socket.socket) -> None:
    """Send everything back, and the last words at the end."""
    while data := connection.recv(65536):
        connection.sendall(data)
    connection.sendall(b"bye")


class Ways:
    """A server of each kind that most tests share, their URLs, and an echo server behind them."""

    def __init__(self, directory: Path, home: Home, held: ExitStack) -> None:
        self.home = home
        self.servers: dict[str, Server] = {}
        for name, start, *login in (
            ("sshd", Sshd, home),
            ("socks", socks_proxy),
            ("socks-login", socks_proxy, USER, PASSWORD),
            ("http", http_proxy),
            ("http-login", http_proxy, USER, PASSWORD),
        ):
            self.servers[name] = held.enter_context(running(start(directory / name, *login)))
        self.target = held.enter_context(Peer(echo))
        home.trusts(self.sshd)

    @property
    def sshd(self) -> Sshd:
        server = self.servers["sshd"]
        assert isinstance(server, Sshd)
        return server

    def url(self, name: str, login: str = "") -> str:
        scheme = {"sshd": "ssh", "socks": "socks5", "http": "http"}[name.partition("-")[0]]
        if name.endswith("-login"):
            login = login or f"{USER}:{PASSWORD_IN_URL}@"
        return f"{scheme}://{login}127.0.0.1:{self.servers[name].port}"


@asynccontextmanager
async def dialer(*urls: str, seconds: float = 20) -> AsyncIterator[Dialer]:
    async with asyncio.TaskGroup() as tasks:
        made = Dialer([Hop.parse(url) for url in urls], seconds, tasks)
        try:
            yield made
        finally:
            await made.close()


async def works(made: Dialer, address: str) -> None:
    """Check that bytes pass in both directions."""
    loop = asyncio.get_running_loop()
    with await made.connect(Address.parse(address)) as sock:
        await loop.sock_sendall(sock, b"hello")
        assert await loop.sock_recv(sock, 100) == b"hello"


async def failure(address: str, *urls: str, seconds: float = 20) -> UpstreamError:
    async with dialer(*urls, seconds=seconds) as made:
        with pytest.raises(UpstreamError) as caught:
            await made.connect(Address.parse(address))
    assert "s3cr3t" not in str(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value
