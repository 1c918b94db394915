"""Verifiers in the output of Kafka's and ZooKeeper's tools, as 3.9.2 and 4.4.0 printed it, of a known password."""

from __future__ import annotations

import json

import pytest

from kproxy.users.kafkaoutput import ScramImport, ScramReader
from kproxy.users.verifier import ScramVerifier

PASSWORD = "pencil"
SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
V256 = (
    "salt=MWpyNDE2djNjYWxvOG95OGw3Mnk5eHZsMmg=,stored_key=He255qJWhJf7X4se3fz7GjAQlfcjjIwOvnVjSv3X3TU=,"
    "server_key=b5BgJTMLG+b/vay97My4yhJ5611TBTtiSCrhpHB/dxk=,iterations=8192"
)
V512 = (
    "salt=cnMzZm41MTNhdXQwMWIxYjZiODN6bGs3YQ==,stored_key=bnn28eXCWsxvHTAoMJN8NHdhV3uPETZR3/UuJmEqwrjQugAf6+Qct1tebKSx"
    "N79/KyoMcbBXEXcf47jr7wKrTA==,server_key=ZUyBGCtlC0CpJ+RnDg5uk9GlYxB1Kmt4O0XpCNUHGzX9SGJYpzhsptQVzUADtp/"
    "Pdj1rlIvyQ2iUdQFFOnCuKg==,iterations=4096"
)
DESCRIBED = f"""\
Warning: --zookeeper is deprecated and will be removed in a future version of Kafka.
Use --bootstrap-server instead to specify a broker to connect to.
Configs for user-principal 'it's, =b' are {SHA_512}={V512},{SHA_256}={V256},consumer_byte_rate=1024
Configs for user-principal 'alice' are {SHA_256}={V256}
Configs for user-principal 'carol' are consumer_byte_rate=1024
Configs for user-principal 'dave', client-id 'x' are consumer_byte_rate=1024
Configs for default user-principal are consumer_byte_rate=1024
"""
NODE = json.dumps({"version": 1, "config": {SHA_512: V512, SHA_256: V256, "consumer_byte_rate": "1024"}})
QUOTA = '{"version":1,"config":{"consumer_byte_rate":"1024"}}'
SHELL = """\
Connecting to 127.0.0.1:31464

WATCHER::

WatchedEvent state:SyncConnected type:None path:null
"""


def record(name: str, mechanism: int = 1, **changed: object) -> str:
    verifier = ScramVerifier.parse(SHA_256, V256) if mechanism == 1 else ScramVerifier.parse(SHA_512, V512)
    fields = dict(part.partition("=")[::2] for part in verifier.text().split(","))
    data = {
        **{"name": name, "mechanism": mechanism, "salt": fields["salt"], "storedKey": fields["stored_key"]},
        **{"serverKey": fields["server_key"], "iterations": verifier.iterations, **changed},
    }
    return line("USER_SCRAM_CREDENTIAL", data)


def line(kind: str, data: dict[str, object]) -> str:
    payload = json.dumps({"type": f"{kind}_RECORD", "version": 0, "data": data}, separators=(",", ":"))
    before = "| offset: 14 CreateTime: 1795690674749 keySize: -1 valueSize: 108 sequence: -1 headerKeys: [] payload: "
    return f"{before}{payload}\n"


def removal(name: str, mechanism: int = 1) -> str:
    return line("REMOVE_USER_SCRAM_CREDENTIAL", {"name": name, "mechanism": mechanism})


def read(text: str, user: str | None = None) -> ScramImport:
    reader = ScramReader(user)
    reader.read(text.splitlines(keepends=True))
    return reader.result


def verified(result: ScramImport) -> dict[str, list[str]]:
    """Return the mechanisms of each user, after the check that the password is the right one."""
    for verifiers in result.users.values():
        assert all(verifier.is_of(PASSWORD) for verifier in verifiers.values())
    return {name: list(verifiers) for name, verifiers in result.users.items()}


def test_kafka_configs() -> None:
    result = read(DESCRIBED)
    assert verified(result) == {"it's, =b": [SHA_512, SHA_256], "alice": [SHA_256]}
    assert result.without == {"carol"}
    assert result.problems == []


def test_kafka_configs_with_a_bootstrap_server_prints_no_keys() -> None:
    result = read("SCRAM credential configs for user-principal 'alice' are SCRAM-SHA-256=iterations=8192\n")
    assert (result.users, result.has_described_only) == ({}, True)


def test_a_node_with_its_path_above_it() -> None:
    text = (
        f"/config/users/it%27s%2C%20%3Db\n{SHELL}{NODE}\ncZxid = 0x1f\n"
        f"[zk: 127.0.0.1:2181(CONNECTED) 0] get /config/users/alice\n{NODE}\n"
        f"get /config/users/alice/clients/x\n{QUOTA}\n"
        f"get /config/users/<default>\n{QUOTA}\n"
        f"get /config/users/carol\n{QUOTA}\n"
    )
    result = read(text)
    assert verified(result) == {"it's, =b": [SHA_512, SHA_256], "alice": [SHA_512, SHA_256]}
    assert result.without == {"carol"}
    assert result.problems == []


def test_a_node_without_a_path_is_of_the_user_that_the_caller_names() -> None:
    assert verified(read(f"{SHELL}{NODE}\n", "alice")) == {"alice": [SHA_512, SHA_256]}
    result = read(f"{SHELL}Node does not exist: /config/users/eve\n{NODE}\n")
    assert result.users == {}
    assert result.problems == [("", "no line says whose node this is: give --user, or the path above it")]


def test_the_metadata_log() -> None:
    records = [
        *(record("alice"), record("alice", 2), record("bob"), record("carol"), removal("bob"), removal("carol")),
        *(record("carol", 2), removal("carol", 1), line("TOPIC", {"name": "t"})),
    ]
    result = read("Dumping 00000000000000000000.log\nLog starting offset: 0\n" + "".join(records))
    assert verified(result) == {"alice": [SHA_256, SHA_512], "carol": [SHA_512]}
    assert result.removed == {"bob"}
    assert result.problems == []


def test_the_last_record_of_a_user_counts() -> None:
    other = ScramVerifier.from_password(SHA_256, "other")
    fields = dict(part.partition("=")[::2] for part in other.text().split(","))
    earlier = record("alice", salt=fields["salt"], storedKey=fields["stored_key"], serverKey=fields["server_key"])
    assert verified(read(earlier + record("alice"))) == {"alice": [SHA_256]}
    # One that cannot be used does not bring back the one before it.
    result = read(record("alice") + record("alice", iterations=1))
    assert result.users == {}
    assert result.problems == [
        ("alice", "its verifier of SCRAM-SHA-256 has 1 iterations; allowed: 4096 to 1000000"),
    ]


@pytest.mark.parametrize(("end", "names"), [("END", ["alice", "bob"]), ("ABORT", ["alice"]), ("", ["alice"])])
def test_a_transaction(end: str, names: list[str]) -> None:
    reader = ScramReader()
    reader.read([record("alice"), line("BEGIN_TRANSACTION", {"name": "x"}), record("bob")])
    reader.read([line(f"{end}_TRANSACTION", {})] if end else [])  # in the next segment of the log
    assert list(reader.result.users) == names


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (record("alice", 3), "its verifier of mechanism 3 is of a mechanism that Kafka does not have"),
        (record("alice", salt="*"), "its verifier of SCRAM-SHA-256 has fields that are missing, or are not base64"),
        (record("alice", storedKey=5), "its verifier of SCRAM-SHA-256 has fields that are missing, or are not base64"),
        (record("alice", storedKey="AAAA"),
         "its verifier of SCRAM-SHA-256 has a stored_key of 3 bytes; SCRAM-SHA-256 has 32"),
        (record("alice", iterations="4096"), "its verifier of SCRAM-SHA-256 has iterations that are no number"),
        (record("alice", iterations=10**9),
         "its verifier of SCRAM-SHA-256 has 1000000000 iterations; allowed: 4096 to 1000000"),
        (record("a\x1b[1m"),
         "its verifier of SCRAM-SHA-256 is no name of a user; allowed: 1 to 255 printable characters"),
        (line("USER_SCRAM_CREDENTIAL", {"mechanism": 1}), "a record of a SCRAM credential cannot be read"),
        (record("alice")[:-20], "a record of a SCRAM credential cannot be read"),
        ('{"type":"USER_SCRAM_CREDENTIAL_RECORD","data":' + "[" * 100_000,
         "a record of a SCRAM credential cannot be read"),
        (f"Configs for user-principal 'alice' are SCRAM-SHA-1={V256}",
         "its verifier of SCRAM-SHA-1 is of a mechanism that Kafka does not have"),
        (f"Configs for user-principal 'alice' are {SHA_512}={V256}",
         "its verifier of SCRAM-SHA-512 has a stored_key of 32 bytes; SCRAM-SHA-512 has 64"),
    ],
)  # fmt: skip
def test_what_is_left_out_and_why(text: str, problem: str) -> None:
    result = read(text)
    assert result.users == {}
    assert [why for _, why in result.problems] == [problem]
    assert all(name.isprintable() for name, _ in result.problems)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{}",
        "[]",
        '{"version":1}',
        '{"version":1,"config":[]}',
        '{"config":{"SCRAM-SHA-256":1}}',
        "x" * 2_000_000,
    ],
)
def test_other_text_is_ignored(text: str) -> None:
    result = read(f"get /config/users/alice\n{text}\n")
    assert (result.users, result.problems) == ({}, [])
