"""`--via ssh://`: the user's own files, keys and agent; one connection that comes back; what servers refuse."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError, ViaError
from tests.harness.process import wait_until
from tests.harness.servers.peers import Peer
from tests.harness.servers.ways import Sshd, Ways, dialer, failure, make_key, running, works

pytestmark = pytest.mark.integration


def ssh_keygen(*args: str) -> str:
    return subprocess.run(["ssh-keygen", *args], capture_output=True, text=True, check=True).stdout


async def test_one_direction_ends_before_the_other_through_ssh(ways: Ways) -> None:
    loop = asyncio.get_running_loop()
    async with dialer(ways.url("sshd")) as made:
        with await made.connect(Address.parse(ways.target.address)) as sock:
            await loop.sock_sendall(sock, b"x" * 1000)
            sock.shutdown(socket.SHUT_WR)
            got = b""
            while data := await loop.sock_recv(sock, 65536):
                got += data
            assert got == b"x" * 1000 + b"bye"


async def test_one_login_for_all(ways: Ways) -> None:
    before = ways.sshd.logins
    async with dialer(ways.url("sshd")) as made:
        await asyncio.gather(*(works(made, ways.target.address) for _ in range(20)))
        await works(made, ways.target.address)
    assert ways.sshd.logins == before + 1


async def test_a_lost_connection_is_made_again(ways: Ways, tmp_path: Path) -> None:
    sshd = Sshd(tmp_path / "sshd", ways.home)
    ways.home.trusts(sshd)
    loop = asyncio.get_running_loop()
    with running(sshd):
        async with dialer(f"ssh://127.0.0.1:{sshd.port}") as made:
            with await made.connect(Address.parse(ways.target.address)) as sock:
                await asyncio.to_thread(sshd.stop)
                assert await loop.sock_recv(sock, 100) == b""  # what went through it has ended
            with pytest.raises(ViaError, match="connection refused"):
                await made.connect(Address.parse(ways.target.address))
            await asyncio.to_thread(sshd.start)
            async with asyncio.timeout(30):
                while True:  # the pause after the failure
                    try:
                        await works(made, ways.target.address)
                        break
                    except ViaError:
                        await asyncio.sleep(0.05)


async def test_a_server_that_refuses_is_not_asked_all_the_time(ways: Ways) -> None:
    def hang_up(connection: socket.socket) -> None:
        connection.recv(1)

    with Peer(hang_up) as peer:
        async with dialer(f"ssh://{peer.address}") as made:
            errors = await asyncio.gather(*(made.connect(Address("a", 1)) for _ in range(10)), return_exceptions=True)
            with pytest.raises(ViaError) as again:
                await made.connect(Address("a", 1))
        assert peer.accepted == 1
    assert {str(error) for error in errors} == {str(again.value)}
    assert "is not an SSH server, or it hung up" in str(again.value)


async def test_a_channel_that_nobody_waits_for_any_more_is_closed(ways: Ways) -> None:
    ended = threading.Event()

    def until_the_end(connection: socket.socket) -> None:
        while connection.recv(100):
            pass
        ended.set()

    async with dialer(ways.url("sshd"), seconds=20) as made:
        await works(made, ways.target.address)
        made._seconds = 0  # give up at once
        with Peer(until_the_end) as peer:
            with pytest.raises(UpstreamError, match="no answer within 0 s through"):
                await made.connect(Address.parse(peer.address))
            assert await asyncio.to_thread(ended.wait, 20)


async def test_an_unknown_host_key_and_another_one(ways: Ways, tmp_path: Path) -> None:
    with running(Sshd(tmp_path / "other", ways.home)) as other:
        assert isinstance(other, Sshd)
        url, known_as = f"ssh://127.0.0.1:{other.port}", f"[127.0.0.1]:{other.port}"
        fingerprint = ssh_keygen("-lf", str(tmp_path / "other" / "host_key.pub")).split()[1]
        error = await failure(ways.target.address, url)
        assert (error.reason, type(error)) == ("ssh-host-key", ViaError)
        assert f"the host key of {known_as} (ssh-ed25519 {fingerprint}) is unknown: connect once" in str(error)
        known = ways.home.known_hosts.read_text()
        ways.home.known_hosts.write_text(f"{known}{known_as} {ways.sshd.host_key}\n")
        error = await failure(ways.target.address, url)
        assert error.reason == "ssh-host-key"
        assert f"the host key of {known_as} (ssh-ed25519 {fingerprint}) is not the one in known_hosts" in str(error)
        ways.home.known_hosts.write_text(f"{known}{known_as} {other.host_key}\n@revoked * {other.host_key}\n")
        error = await failure(ways.target.address, url)
        assert "is revoked in known_hosts" in str(error)
        assert other.logins == 0


async def test_known_hosts_as_ssh_keeps_them(ways: Ways, tmp_path: Path) -> None:
    """Hashed, among lines that mean nothing; in the files that the configuration names; under an alias."""
    entry = ways.home.known_hosts.read_text()
    ssh_keygen("-H", "-f", str(ways.home.known_hosts))
    hashed = ways.home.known_hosts.read_text()
    assert "127.0.0.1" not in hashed
    ways.home.known_hosts.write_text("nonsense\n@what x y\n\n# comment\n|1|x|y ssh-ed25519 z\n" + hashed)
    async with dialer(ways.url("sshd")) as made:
        await works(made, ways.target.address)
    ways.home.known_hosts.write_text("")
    system, user = tmp_path / "system", tmp_path / "user"
    system.write_text(entry)
    user.write_text(f"known-as-this {ways.sshd.host_key}\n")
    for line in (f"GlobalKnownHostsFile {system}", f"UserKnownHostsFile {user}\n HostKeyAlias known-as-this"):
        ways.home.config.write_text(f"Host 127.0.0.1\n {line}\n")
        if "Alias" in line:
            ways.home.config.write_text(f"Host 127.0.0.1\n {line}\n Port 22\n")
            user.write_text(f"[known-as-this]:{ways.sshd.port} {ways.sshd.host_key}\n")
        async with dialer(ways.url("sshd")) as made:
            await works(made, ways.target.address)
    # No way around the check.
    for line in ("UserKnownHostsFile none", "UserKnownHostsFile /dev/null", "StrictHostKeyChecking no"):
        ways.home.config.write_text(f"Host 127.0.0.1\n {line}\n")
        assert (await failure(ways.target.address, ways.url("sshd"))).reason == "ssh-host-key"


async def test_a_key_that_is_not_allowed(ways: Ways, tmp_path: Path) -> None:
    stranger = tmp_path / "stranger"
    make_key(stranger)
    ways.home.config.write_text(f"Host 127.0.0.1\n IdentityFile {stranger}\n")
    error = await failure(ways.target.address, ways.url("sshd", "root@"))
    assert (error.reason, type(error)) == ("ssh-auth", ViaError)
    assert "the server refuses root: it accepts no key of the agent or of ~/.ssh" in str(error)


@contextmanager
def agent(directory: Path, key: Path) -> Iterator[str]:
    """An agent that has the key."""
    address = str(directory / "agent")
    with subprocess.Popen(["ssh-agent", "-D", "-a", address], stdout=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: os.path.exists(address), "the agent listens")
            subprocess.run(
                ["ssh-add", "-q", key],
                env={
                    **os.environ,
                    "SSH_AUTH_SOCK": address,
                    "SSH_ASKPASS": "/bin/echo",
                    "SSH_ASKPASS_REQUIRE": "force",
                },
                check=True,
                stdin=subprocess.DEVNULL,
                capture_output=True,
            )
            yield address
        finally:
            process.terminate()


async def test_a_key_with_a_passphrase_needs_the_agent(
    ways: Ways, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "key"
    make_key(key)
    sshd = Sshd(tmp_path / "sshd", ways.home, f"AuthorizedKeysFile {tmp_path / 'key.pub'}")
    ways.home.trusts(sshd)
    ways.home.config.write_text(f"Host 127.0.0.1\n IdentityFile {key}\n")
    url = f"ssh://127.0.0.1:{sshd.port}"
    with running(sshd), agent(tmp_path, key) as address:
        ssh_keygen("-p", "-N", "a passphrase", "-f", str(key))
        error = await failure(ways.target.address, url)
        assert error.reason == "ssh-auth"
        assert "a key with a passphrase must be in the agent (ssh-add)" in str(error)
        monkeypatch.setenv("SSH_AUTH_SOCK", address)
        async with dialer(url) as made:
            await works(made, ways.target.address)
        monkeypatch.delenv("SSH_AUTH_SOCK")
        ways.home.config.write_text(f"Host 127.0.0.1\n IdentityAgent {address}\n")
        async with dialer(url) as made:
            await works(made, ways.target.address)


async def test_a_server_that_forbids_forwarding(ways: Ways, tmp_path: Path) -> None:
    sshd = Sshd(tmp_path / "sshd", ways.home, "AllowTcpForwarding no")
    ways.home.trusts(sshd)
    with running(sshd):
        error = await failure(ways.target.address, f"ssh://127.0.0.1:{sshd.port}")
    assert (error.reason, type(error)) == ("ssh-forbidden", UpstreamError)
    assert "forbids forwarding to that address (AllowTcpForwarding, PermitOpen or permitopen on the server)" in str(
        error
    )


Config = Callable[[Ways], tuple[str, str]]

CONFIGS: dict[str, Config] = {
    "a name, a port, a user and a key": lambda ways: (
        f"Host bastion\n HostName 127.0.0.1\n Port {ways.sshd.port}\n IdentityFile ~/.ssh/id_ed25519\n"
        "Host *\n User nobody-of-that-name\n",
        f"ssh://{os.environ.get('USER') or 'root'}@bastion",
    ),
    "ProxyJump": lambda ways: (
        "Host bastion\n ProxyJump first,second\n"
        f"Host *\n HostName 127.0.0.1\n Port {ways.sshd.port}\n",
        "ssh://bastion",
    ),
    "a ProxyJump of a ProxyJump": lambda ways: (
        f"Host bastion\n ProxyJump first\nHost first\n ProxyJump ssh://127.0.0.1:{ways.sshd.port}\n"
        f"Host *\n HostName 127.0.0.1\n Port {ways.sshd.port}\n",
        "ssh://bastion",
    ),
    "ProxyCommand": lambda ways: (
        f"Host bastion\n HostName 127.0.0.1\n Port {ways.sshd.port}\n"
        f" ProxyCommand ssh -F none -o UserKnownHostsFile={ways.home.known_hosts} -i {ways.home.key}"
        f" -p {ways.sshd.port} -W %h:%p 127.0.0.1\n",
        "ssh://bastion",
    ),
    "Match and Include": lambda ways: (
        'Include more/*\nMatch host bastion exec "false"\n Port 1\n'
        f'Match host bastion exec "test -d /"\n HostName 127.0.0.1\n Port {ways.sshd.port}\n',
        "ssh://bastion",
    ),
    "nothing of what asyncssh does not know": lambda ways: (
        f"Host bastion\n HostName 127.0.0.1\n Port {ways.sshd.port}\n ControlMaster auto\n ControlPath ~/.ssh/%C\n"
        " StrictHostKeyChecking yes\n LogLevel QUIET\n AddKeysToAgent yes\n IPQoS ef\n UpdateHostKeys yes\n",
        "ssh://bastion",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGS)
async def test_the_user_s_configuration_counts(name: str, ways: Ways) -> None:
    text, url = CONFIGS[name](ways)
    ways.home.config.write_text(text)
    async with dialer(url) as made:
        await works(made, ways.target.address)


# What AWS's own program would do: its arguments are those that its documentation names.
_AWS = """
import shutil, socket, sys, threading
port = sys.argv[-1].removeprefix("portNumber=")
wanted = ["ssm", "start-session", "--target", "i-0123456789abcdef0", "--document-name", "AWS-StartSSHSession"]
assert sys.argv[1:] == [*wanted, "--parameters", f"portNumber={port}"], sys.argv
sock = socket.create_connection(("127.0.0.1", int(port)))
def down():
    while data := sock.recv(65536):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
threading.Thread(target=down, daemon=True).start()
while data := sys.stdin.buffer.read1(65536):
    sock.sendall(data)
"""


async def test_the_recipe_for_the_session_manager(ways: Ways, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as it can be tried without AWS: the lines of the recipe as they are, and a program in the place of aws."""
    recipe = (Path(__file__).parents[2] / "docs/recipes/clouds.md").read_text()
    (lines,) = re.findall(r"```\n# ~/\.ssh/config\n(Host i-\*\n.*?)```", recipe, re.DOTALL)
    own = f"Host i-*\n Port {ways.sshd.port}\n HostKeyAlias [127.0.0.1]:{ways.sshd.port}\n"
    ways.home.config.write_text(lines + own)
    (tmp_path / "aws.py").write_text(_AWS)
    (tmp_path / "aws").write_text(f'#!/bin/sh\nexec {sys.executable} {tmp_path / "aws.py"} "$@"\n')
    (tmp_path / "aws").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    async with dialer("ssh://i-0123456789abcdef0") as made:
        await works(made, ways.target.address)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Host bastion\n Port many\n", r"config line 2: Invalid Port integer value: many"),
        ("Host bastion\n User 'me\n", r"config line 2: No closing quotation"),
        (
            "Host bastion\n ProxyJump bastion\n",
            r"--via ssh://bastion, ProxyJump bastion: ProxyJump in .* is a loop",
        ),
        ("Host bastion\n ProxyCommand /no/such/program\n", r"SSH failed: .*No such file or directory"),
    ],
)
async def test_mistakes_in_the_user_s_configuration(text: str, words: str, ways: Ways) -> None:
    ways.home.config.write_text(text)
    error = await failure(ways.target.address, "ssh://bastion")
    assert (error.reason, type(error)) == ("ssh", ViaError)
    assert re.search(words, str(error)), str(error)


async def test_a_proxy_command_goes_no_other_way(ways: Ways) -> None:
    ways.home.config.write_text("Host bastion\n ProxyCommand true\n")
    error = await failure(ways.target.address, ways.url("socks"), "ssh://bastion")
    assert "ProxyCommand in ~/.ssh/config cannot go through another --via" in str(error)
