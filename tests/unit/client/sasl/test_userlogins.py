"""The login of each user: from the users file, from a command, or from a default; hostile names and outputs."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
from pathlib import Path

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError
from kproxy.client.ask.channel import ConnectionChannel
from kproxy.client.sasl import userlogins
from kproxy.client.sasl.mechanism import UserLoginRefused
from kproxy.client.sasl.userlogins import NoUserLogin, UserLogins
from kproxy.config import ClusterConfig
from kproxy.net.dial.stream import Stream
from kproxy.users.document import UpstreamLogin
from tests.harness.servers.peers import Peer
from tests.unit.client.sasl import broker

SECRET = "s3cret-of-these-tests"
USERS = f"""\
users:
  alice:
    logins:
      green: {{username: sa-1, password: {SECRET}}}
  bob: {{}}
  shared:
    logins:
      green: {{token: {SECRET}}}
"""


@pytest.fixture
def users_file(tmp_path: Path) -> Path:
    file = tmp_path / "users.yaml"
    file.touch(0o600)
    file.write_text(USERS)
    return file


def logins(users_file: Path | None = None, **more: object) -> UserLogins:
    values = {"sasl": "PLAIN", "sasl_username": "kproxy", "sasl_password": "x", "upstream": "green", **more}
    config = ClusterConfig(
        checked=False, bootstrap_servers=(Address("kafka", 9092),), login_as="user", users_file=users_file, **values
    )  # type: ignore[arg-type]
    return UserLogins(config)


async def printed(tmp_path: Path, output: str, user: str = "carol", **more: object) -> UpstreamLogin:
    """Return the login of a user that a command prints so."""
    file = tmp_path / "output"
    file.write_text(output)
    return await logins(credentials_command=f"sh -c 'cat {file}' {{user}}", **more).find(user)


async def test_the_users_file(users_file: Path) -> None:
    of_users = logins(users_file)
    assert await of_users.find("alice") == UpstreamLogin("sa-1", SECRET)
    assert await of_users.find("shared") == UpstreamLogin("", token=SECRET)
    for user in ("bob", "eve"):
        with pytest.raises(
            NoUserLogin, match=f"user {user} has no login for green: kproxy users login FILE {user} green"
        ):
            await of_users.find(user)
    with pytest.raises(NoUserLogin, match="has no login for blue"):
        await logins(users_file, upstream="blue").find("alice")


async def test_a_cluster_without_upstreams_has_its_own_name(users_file: Path) -> None:
    assert (await logins(users_file, upstream="", name="green").find("alice")).username == "sa-1"


async def test_a_default_is_for_users_without_a_login(users_file: Path) -> None:
    of_users = logins(users_file, default_login="shared")
    assert (await of_users.find("alice")).username == "sa-1"
    assert (await of_users.find("eve")).token == SECRET
    with pytest.raises(NoUserLogin, match="user eve has no login"):
        await logins(users_file, default_login="bob").find("eve")


async def test_the_mechanism(users_file: Path) -> None:
    of_users = logins(users_file, sasl="SCRAM-SHA-256")
    attempt = await of_users.login_of("alice").prepare(Address("kafka", 9092), "kafka")
    assert attempt.mechanism.name == "SCRAM-SHA-256"
    assert SECRET not in repr(attempt)
    attempt = await of_users.login_of("shared").prepare(Address("kafka", 9092), "kafka")
    assert attempt.mechanism.name == "OAUTHBEARER"
    of_users = logins(users_file, sasl="GSSAPI", sasl_password=None)
    with pytest.raises(UpstreamError, match="of user alice for green cannot be used: it needs a mechanism"):
        await of_users.login_of("alice").prepare(Address("kafka", 9092), "kafka")
    assert of_users.login_of("alice") is of_users.login_of("alice")
    assert of_users.login_of("alice") is not of_users.login_of("bob")


def refusing(connection: socket.socket) -> None:
    """Answer as a broker that refuses each login with SaslAuthenticate."""
    stream = connection.makefile("rb")
    answers = {18: broker.versions(handshake=1, authenticate=2), 17: broker.handshake()}
    while head := stream.read(4):
        frame = stream.read(struct.unpack(">i", head)[0])
        body = answers.get(struct.unpack_from(">h", frame)[0]) or broker.authenticate(2, error=58)
        connection.sendall(struct.pack(">i", 4 + len(body)) + frame[4:8] + body)
    stream.close()


async def test_a_refusal_is_about_one_user(users_file: Path) -> None:
    """The brokers are not asked again at once, and other users are not concerned."""
    of_users, address = logins(users_file), Address("kafka", 9092)
    with Peer(refusing) as peer:
        host, port = peer.address.split(":")
        attempt = await of_users.login_of("alice").prepare(address, "kafka")
        with socket.create_connection((host, int(port))) as sock:
            sock.setblocking(False)
            with pytest.raises(UserLoginRefused, match="the broker refused the login"):
                await of_users.login_of("alice").log_in(ConnectionChannel(Stream(sock)), attempt)
    with pytest.raises(UserLoginRefused, match="the broker refused the login"):
        await of_users.login_of("alice").prepare(address, "kafka")
    with pytest.raises(NoUserLogin, match="kafka:9092: SASL: user bob has no login for green"):
        await of_users.login_of("bob").prepare(address, "kafka")
    assert await of_users.login_of("shared").prepare(address, "kafka")


PAIR = {"username": "sa-4711", "password": SECRET}


@pytest.mark.parametrize(
    "output",
    [
        PAIR,
        {"data": {"data": PAIR, "metadata": {"version": 3}}, "lease_duration": 0, "warnings": None},  # Vault, KV v2
        {"data": PAIR, "lease_duration": 2764800},  # Vault, KV v1
        {"ARN": "arn:aws:x", "SecretString": json.dumps(PAIR)},  # AWS Secrets Manager
        {"id": "https://x.vault.azure.net", "value": json.dumps(PAIR)},  # Azure Key Vault
        json.dumps(PAIR),  # az … --query value
    ],
)
async def test_what_a_command_may_print(tmp_path: Path, output: object) -> None:
    assert await printed(tmp_path, json.dumps(output)) == UpstreamLogin("sa-4711", SECRET)


async def test_a_token_and_a_mechanism(tmp_path: Path) -> None:
    assert await printed(tmp_path, json.dumps({"token": SECRET, "expires_in": 60})) == UpstreamLogin("", token=SECRET)
    pair = {**PAIR, "mechanism": "SCRAM-SHA-256"}
    assert (await printed(tmp_path, json.dumps(pair))).mechanism == "SCRAM-SHA-256"


@pytest.mark.parametrize("output", ["null", "{}", '{"data": null}', '{"value": {}}'])
async def test_a_command_may_know_no_login(tmp_path: Path, users_file: Path, output: str) -> None:
    with pytest.raises(NoUserLogin, match="user carol has no login for green"):
        await printed(tmp_path, output)
    login = await printed(tmp_path, output, users_file=users_file, default_login="shared")
    assert login.token == SECRET


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        (SECRET, "it is no JSON object"),
        (f'["{SECRET}"]', "it is no JSON object"),
        ("[" * 100_000, "it is no JSON object"),
        ('{"data":' * 6 + "{}" + "}" * 6, "it is no JSON object"),
        (json.dumps({"user": SECRET}), "it needs either a password or a token"),
        (json.dumps({"username": "x", "password": 5}), "it has a value that is no text"),
        (json.dumps({"username": "x", "password": ""}), "it has a value that is no text"),
        (json.dumps({"username": ["x"], "password": SECRET}), "it has a value that is no text"),
        (json.dumps({**PAIR, "token": SECRET}), "it needs either a password or a token"),
        (json.dumps({**PAIR, "mechanism": "MAGIC"}), "it has an unknown mechanism"),
        (json.dumps({"password": SECRET}), "it has no username"),
        (json.dumps({"username": "a\0", "password": SECRET}), "it has a character that no login may have"),
    ],
)
async def test_what_a_command_must_not_print(tmp_path: Path, users_file: Path, output: str, problem: str) -> None:
    """It is no missing login: the default does not count."""
    with pytest.raises(UpstreamError, match=f"user carol for green cannot be used: {problem}") as caught:
        await printed(tmp_path, output, users_file=users_file, default_login="shared")
    assert not isinstance(caught.value, NoUserLogin)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("sh -c 'echo hush >&2; exit 3' {user}", "the command 'sh' ended with code 3"),
        ("/does/not/exist {user}", "cannot be run: No such file"),
        ("sh -c 'head -c 2000000 /dev/zero' {user}", "has more than 1024 KiB"),
        ("true {user}", "contains neither a password nor a token"),
    ],
)
async def test_a_command_that_fails(
    users_file: Path, capfd: pytest.CaptureFixture[str], command: str, problem: str
) -> None:
    of_users = logins(users_file, credentials_command=command, default_login="shared")
    with pytest.raises(UpstreamError, match=problem):
        await of_users.find("carol")
    assert "hush" not in capfd.readouterr().err
    with pytest.raises(UpstreamError, match=problem):  # it waits before it runs again
        await of_users.find("carol")
    assert (await of_users.find("alice")).username == "sa-1"  # another user does not wait


async def test_names_are_whole_words_for_the_command(tmp_path: Path) -> None:
    """No shell reads them, and no name is replaced within another."""
    script = tmp_path / "script"
    script.write_text('#!/bin/sh\nprintf \'{"username":"%s","password":"%s"}\' "$1" "$#"\n')
    script.chmod(0o700)
    of_users = logins(credentials_command=f"{script} 'kafka/{{user}}/{{upstream}}' {{other}}")
    login = await of_users.find("CN=alice b, O=x@y")
    assert login == UpstreamLogin("kafka/CN=alice b, O=x@y/green", "2")


@pytest.mark.parametrize(
    "user",
    ["../admin", "a/b", "a..b", "-x", "--help", ".ssh", "", "a\nb", "a\0b", "$(id)", "a;b", "`id`", "%2e", "a?b", "a#b",
     "a\\b", "\u202ea", "é", "x" * 256, "{upstream}"],
)  # fmt: skip
async def test_names_that_a_command_does_not_get(tmp_path: Path, user: str) -> None:
    of_users = logins(credentials_command=f"touch {tmp_path}/ran {{user}}")
    with pytest.raises(NoUserLogin, match="has a name that credentials-command does not get") as caught:
        await of_users.find(user)
    assert str(caught.value).isprintable()
    assert os.listdir(tmp_path) == []


async def test_a_command_runs_once_for_a_user_until_its_output_expires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "output").write_text(json.dumps({"token": SECRET, "expires_in": 3600}))
    command = f"sh -c 'echo $0 >> {tmp_path}/runs; cat {tmp_path}/output' {{user}}"
    of_users = logins(credentials_command=command, credentials_lifetime=60.0)
    await asyncio.gather(*(of_users.find(user) for user in ["alice", "bob"] * 20))

    def runs() -> list[str]:
        return sorted((tmp_path / "runs").read_text().split())

    assert runs() == ["alice", "bob"]
    now = userlogins.time.monotonic()
    monkeypatch.setattr(userlogins.secrets.time, "monotonic", lambda: now + 59)
    await of_users.find("alice")
    assert runs() == ["alice", "bob"]
    monkeypatch.setattr(userlogins.secrets.time, "monotonic", lambda: now + 70)
    await of_users.find("alice")
    assert runs() == ["alice", "alice", "bob"]
    of_users.forget("bob")
    of_users.forget("eve")
    await of_users.find("bob")
    assert runs() == ["alice", "alice", "bob", "bob"]


def counted(directory: Path) -> list[int]:
    return list(map(int, Path(f"{directory}.log").read_text().split()))


async def test_commands_at_a_time_and_remembered_users_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(userlogins, "_MOST_COMMANDS", 2)
    monkeypatch.setattr(userlogins, "_MOST_USERS", 3)
    script = f'mkdir {tmp_path}/$0; ls {tmp_path} | wc -l >> {tmp_path}.log; rmdir {tmp_path}/$0; echo "{{}}"'
    of_users = logins(credentials_command=f"sh -c '{script}' {{user}}")
    results = await asyncio.gather(*(of_users.find(f"u{number}") for number in range(20)), return_exceptions=True)
    assert {type(result) for result in results} == {NoUserLogin}
    counts = counted(tmp_path)
    assert len(counts) == 20
    assert max(counts) <= 2
    assert len(of_users._outputs) == 3
    for number in range(20):
        of_users.login_of(f"u{number}")
    assert len(of_users._logins) == 3


async def test_a_users_file_that_cannot_be_read(users_file: Path) -> None:
    os.chmod(users_file, 0o644)
    of_users = logins(users_file)
    with pytest.raises(UpstreamError, match=r"the users file cannot be read: .* is open to other users"):
        await of_users.find("alice")
    os.chmod(users_file, 0o600)
    assert (await of_users.find("alice")).username == "sa-1"
