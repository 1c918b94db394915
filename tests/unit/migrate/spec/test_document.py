"""The file of a migration: what it says, and every mistake in its exact words."""

from __future__ import annotations

import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from kproxy.base.address import Address
from kproxy.base.errors import ConfigError
from kproxy.migrate.spec.document import read_migration
from kproxy.migrate.spec.migration import CopyLimits, GroupSelection, Migration, TopicSelection, WaveSelection
from kproxy.migrate.spec.schema import json_schema
from kproxy.migrate.switch.inverse_offset_map import reverse_name
from kproxy.spark.configuration import build_host_config

ROOT = Path(__file__).parents[4]

BOTH = "source: {bootstrap-servers: a:9092}\ntarget: {bootstrap-servers: b:9092}\n"
FULL = """\
name: eu-move
source:
  bootstrap-servers: [a1:9092, a2:9093]
  map: ['*.internal=gateway:{port}']
  via: socks5://proxy:1080
target: {bootstrap-servers: b, tls: yes, sasl: PLAIN, sasl-username: u, sasl-password-file: secret, listen: '127.0.0.1:21000'}
topics:
  include: ['orders-*', payments]
  exclude: '*-tmp'
  rename: {payments: eu.payments, 'orders-*': 'eu.*.orders'}
  replication: 3
  configs: {min.insync.replicas: 2}
groups: {include: 'billing-*', exclude: [billing-old], as-end: billing-lost}
limits: {max-rate: 12.5, slice-mb: 64}
acls: no
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("m.yaml")


def made(file: Path, text: str) -> Migration:
    file.write_text(text)
    return read_migration(file)


def test_everything(file: Path) -> None:
    migration = made(file, FULL)
    assert migration.name == "eu-move"
    assert migration.state_topic == "kproxy-migration-eu-move"
    assert migration.source["bootstrap-servers"] == ["a1:9092", "a2:9093"]
    assert migration.topics == TopicSelection(
        ("orders-*", "payments"),
        ("*-tmp",),
        {"payments": "eu.payments", "orders-*": "eu.*.orders"},
        3,
        {"min.insync.replicas": "2"},
    )
    assert migration.groups == GroupSelection(("billing-*",), ("billing-old",), ("billing-lost",))
    assert migration.limits == CopyLimits(12.5, 64)
    assert (migration.acls, migration.quotas) == (False, True)


def test_the_schema_accepts_what_is_read() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())
    documented = re.search(r"```yaml\n(name: eu-move.*?)```", (ROOT / "docs/migration.md").read_text(), re.DOTALL)
    assert documented is not None
    kubernetes = BOTH + "switch: {kproxies: {kubernetes: app=kproxy, port: 1}, target-upstream: green}\ntopics:\n"
    for text in (FULL, BOTH, documented[1], kubernetes):
        jsonschema.validate(yaml.safe_load(text), json_schema())


@pytest.mark.parametrize(
    "text",
    [
        "source: {bootstrap-servers: a}", BOTH + "toppics: {}", BOTH + "name: Eu_Move", BOTH + "acls: maybe",
        BOTH + "topics: orders", BOTH + "topics: {include: 'a b'}", BOTH + "topics: {replication: 0}",
        BOTH + "limits: {max-rate: 0}", BOTH + "topics: {rename: {a: [b]}}", BOTH + "switch: {kproxies: a}",
        BOTH + "switch: {kproxies: {dns: a, kubernetes: b}, target-upstream: green}",
        BOTH.replace("b:9092", "b:9092, tlss: yes"), BOTH + "waves: {Big: {}}", BOTH + "waves: {a: [b]}",
        BOTH + "waves: {a: {topic: [x]}}", BOTH + "waves: [a]", BOTH + "waves: {a: {topics: ['x y']}}",
    ],
)  # fmt: skip
def test_the_schema_rejects_what_is_refused(file: Path, text: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(text), json_schema())
    with pytest.raises(ConfigError):
        made(file, text)


def test_users(file: Path) -> None:
    users = made(file, f"{BOTH}users: {{alice: sa-4711, 'CN=a:b,O=c': 4712, ANONYMOUS: 'x y'}}").users
    assert users == {"alice": "sa-4711", "CN=a:b,O=c": "4712", "ANONYMOUS": "x y"}


@pytest.mark.parametrize(
    ("pair", "problem"),
    [
        ("'*': a", "* is no user: ACLs of User:* are copied as they are; allowed: a line for each user"),
        ("a: '*'", "* is no user: ACLs of User:* are copied as they are; allowed: a line for each user"),
        ("'User:a': b", "'User:a' is a principal; allowed: the name of the user, without User:"),
        ("a: 'User:b'", "'User:b' is a principal; allowed: the name of the user, without User:"),
        ("a: ''", "'' is no name of a user; allowed: 1 to 255 printable characters"),
        (f"a: {'b' * 256}", "...' is no name of a user; allowed: 1 to 255 printable characters"),
        (r'a: "\n"', r"'\n' is no name of a user; allowed: 1 to 255 printable characters"),
        ("a: [b]", "has a key or a value that is no text; allowed: KEY: VALUE lines"),
    ],
)
def test_what_is_no_user(file: Path, pair: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        made(file, f"{BOTH}users: {{{pair}}}")
    (line,) = caught.value.problems
    assert line.startswith("m.yaml:3: users: ")
    assert problem in line


def test_waves(file: Path) -> None:
    waves = made(file, f"{BOTH}waves: {{a: {{clients: ['x-*', 'y z'], topics: t}}, b-2: {{groups: [g]}}}}").waves
    assert waves == {"a": WaveSelection(("x-*", "y z"), (), ("t",)), "b-2": WaveSelection((), ("g",))}


@pytest.mark.parametrize(
    ("waves", "problem"),
    [
        ("{A: {}}", "waves: 'A' "),
        ("{a: [b]}", "waves.a: is not a mapping; allowed: clients, groups, topics"),
        ("{a: {topic: b}}", "waves.a.topic: no such key; did you mean topics?"),
        ("{a: {topics: 'b c'}}", "waves.a.topics: 'b c' is not a topic or a glob; allowed: "),
        ("{a: {}, a: {}}", "is given twice"),
        ("[a]", "waves: is not a mapping; allowed: "),
    ],
)
def test_what_are_no_waves(file: Path, waves: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        made(file, f"{BOTH}waves: {waves}")
    assert problem in "\n".join(caught.value.problems)


def test_defaults(file: Path) -> None:
    migration = made(file, BOTH)
    assert migration.name == "migration"
    assert (migration.topics, migration.groups, migration.limits) == (TopicSelection(), GroupSelection(), CopyLimits())


def test_which_topics_and_groups(file: Path) -> None:
    migration = made(file, FULL)
    wanted = [t for t in ("orders-eu", "orders-tmp", "payments", "other") if migration.selects_topic(t)]
    assert wanted == ["orders-eu", "payments"]
    assert [g for g in ("billing-1", "billing-old", "x") if migration.selects_group(g)] == ["billing-1"]
    everything = made(file, BOTH)
    internal = ["__consumer_offsets", "__transaction_state", "__share_group_state", "kproxy-migration-other"]
    assert not any(everything.selects_topic(topic) for topic in internal)
    assert everything.selects_topic("__schemas")


def test_a_wave_has_its_topics_and_the_rest_has_all_others() -> None:
    migration = Migration({}, {}, "move", topics=TopicSelection(("*",), ("*-tmp",)))
    wave = migration.of_wave("orders", ["orders*"])
    names = ["orders", "orders-tmp", "logs", "kproxy-migration-move"]
    assert [name for name in names if wave.selects_topic(name)] == ["orders"]
    rest = migration.without_moved(["orders*"])
    assert [name for name in names if rest.selects_topic(name)] == ["logs"]
    assert [name for name in names if rest.has_moved(name)] == ["orders", "orders-tmp"]
    assert wave.whole() == rest.whole() == migration
    assert wave.state_topic == migration.state_topic
    assert (reverse_name(migration), reverse_name(wave)) == ("move-back", "move.orders-back")


def test_renames(file: Path) -> None:
    migration = made(file, FULL)
    assert [migration.target_name(t) for t in ("payments", "orders-eu", "orders-", "other")] == [
        "eu.payments", "eu.eu.orders", "eu..orders", "other",
    ]  # fmt: skip
    both = made(file, BOTH + "topics: {rename: {'a-*': 'b-*'}}\n")
    assert both.name_clashes(["a-1", "b-1", "c"]) == {"b-1": ["a-1", "b-1"]}
    assert made(file, BOTH + "topics: {exclude: b-1, rename: {'a-*': 'b-*'}}\n").name_clashes(["a-1", "b-1"]) == {}


def test_what_kproxy_is_told(file: Path, tmp_path: Path) -> None:
    migration = made(file, FULL)
    config = migration.kproxy_config()
    source, target = config["clusters"]
    assert (source["name"], target["name"]) == ("source", "target")
    assert target["listen"] == "127.0.0.1:21000"
    assert target["sasl-password-file"] == str(tmp_path / "secret")  # the keeper has another working directory
    clusters = yaml.safe_load(build_host_config(config).text)["clusters"]
    assert clusters == config["clusters"]


def test_ports_of_the_same_clusters_are_stable_and_disjoint(file: Path) -> None:
    first = made(file, BOTH).kproxy_config()
    assert made(file, BOTH + "topics: {include: x}\n").kproxy_config() == first
    assert made(file, BOTH.replace("a:", "c:")).kproxy_config() != first
    for number in range(200):
        config = made(file, BOTH.replace("b:", f"b{number}:")).kproxy_config()
        source, target = (Address.parse(cluster["listen"]).port for cluster in config["clusters"])
        assert min(source, target) >= 20500
        assert abs(target - source) > 200  # for the node ports of each
        assert max(source, target) + 200 < 32768  # below those that Linux gives to connections


def test_ports_that_the_file_has_are_left_alone(file: Path) -> None:
    for number in range(200):
        text = BOTH.replace("b:9092", f"b{number}:9092, listen: '127.0.0.1:24000', node-ports: 21000-21400")
        config = made(file, text).kproxy_config()  # looks whether they overlap
        assert config["clusters"][1]["listen"] == "127.0.0.1:24000"


def test_secrets_are_not_shown(file: Path) -> None:
    text = BOTH.replace("a:9092", "a:9092, sasl: PLAIN, sasl-username: u, sasl-password: hidden")
    assert "hidden" not in repr(made(file, text))


TOP = "acls, groups, limits, name, quotas, schemas, source, switch, target, topics"
CLUSTER = "{bootstrap-servers: HOST:PORT}, and every other option of a cluster in 'kproxy run'"


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("", [f"m.yaml: is empty; allowed: source: {CLUSTER}; target: the same"]),
        ("- a", [f"m.yaml:1: is not a mapping; allowed: source: {CLUSTER}; target: the same"]),
        ("a: [", ["m.yaml:1: is not YAML: while parsing a flow node: expected the node content, but found '<stream end>'"]),
        ("name: x", [f"m.yaml: source: is missing; allowed: source: {CLUSTER}", f"m.yaml: target: is missing; allowed: target: {CLUSTER}"]),
        ("source:\ntarget: {bootstrap-servers: b}", [f"m.yaml:1: source: is missing; allowed: source: {CLUSTER}"]),
        ("source: a:9092\ntarget: {bootstrap-servers: b}", ["m.yaml:1: source: is not a cluster; allowed: "]),
        ("source: {}\ntarget: {bootstrap-servers: b}", ["m.yaml:1: source.bootstrap-servers: is missing; allowed: HOST:PORT, or HOST for port 9092"]),
        ("source: {bootstrap-servers: a}\ntarget: {bootstrap-servers: b, tlss: yes}", ["m.yaml:2: target.tlss: no such key; did you mean tls?"]),
        ("source: {bootstrap-servers: 'a:x'}\ntarget:\n  bootstrap-servers: b\n  tls: maybe", ["m.yaml:1: source.bootstrap-servers[0]: ", "m.yaml:4: target.tls: 'maybe' is neither true nor false; allowed: true, false"]),
        ("source: {bootstrap-servers: a, sasl: PLAIN}\ntarget: {bootstrap-servers: b}", ["m.yaml:1: source.sasl: PLAIN needs a user name; allowed: sasl-username", "m.yaml:1: source.sasl: PLAIN needs a password; allowed: one of"]),
        ("source: {bootstrap-servers: a, listen: '127.0.0.1:21000'}\ntarget: {bootstrap-servers: b, listen: '127.0.0.1:21000'}", ["m.yaml:2: target.listen: "]),
        ("source: {bootstrap-servers: a, listen: '127.0.0.1:21000'}\ntarget: {bootstrap-servers: b, listen: '127.0.0.1:21100'}", ["m.yaml: target.listen: "]),
        (BOTH + "toppics: {}", ["m.yaml:3: toppics: no such key; did you mean topics?"]),
        (BOTH + "zzz: {}", [f"m.yaml:3: zzz: no such key; allowed: {TOP}"]),
        (BOTH + "name: a\nname: b", ["m.yaml:4: name: is given twice, first on line 3; allowed: once"]),
        (BOTH + "name: Eu_Move", ["m.yaml:3: name: 'Eu_Move' is not a name; allowed: 1 to 63 of a-z, 0-9 and -"]),
        (BOTH + "name: [a]", ["m.yaml:3: name: is a list; allowed: 1 to 63 of a-z, 0-9 and -"]),
        (BOTH + "acls: maybe", ["m.yaml:3: acls: 'maybe' is neither true nor false; allowed: true, false"]),
        (BOTH + "topics: orders", ["m.yaml:3: topics: is not a mapping; allowed: KEY: VALUE lines"]),
        (BOTH + "topics: {include: 'a b'}", ["m.yaml:3: topics.include: 'a b' is not a topic or a glob; allowed: 'orders-*', [orders, 'payments-*']"]),
        (BOTH + "topics: {include: }", ["m.yaml:3: topics.include: has no value; allowed: [GLOB, …]"]),
        (BOTH + "topics: {include: [*]}", ["m.yaml:3: is not YAML: while scanning an alias: expected alphabetic or numeric character, but found ']'; put a value that starts with * in quotes"]),
        (BOTH + "topics: {include: [{a: b}]}", ["m.yaml:3: topics.include: is a mapping; allowed: [GLOB, …]"]),
        (BOTH + "topics: {includes: a}", ["m.yaml:3: topics.includes: no such key; did you mean include?"]),
        (BOTH + "topics:\n  rename:\n    a: c\n    b: c", ["m.yaml:6: topics.rename: a and b would both become c; allowed: a name of its own for each"]),
        (BOTH + "topics: {rename: {a: b, a: c}}", ["m.yaml:3: topics.rename: 'a' is given twice, first on line 3"]),
        (BOTH + "topics: {rename: [a, b]}", ["m.yaml:3: topics.rename: is not a mapping; allowed: KEY: VALUE lines"]),
        (BOTH + "topics: {rename: {a: [b]}}", ["m.yaml:3: topics.rename: has a key or a value that is no text; allowed: KEY: VALUE lines"]),
        (BOTH + "topics: {rename: {'a*': b}}", ["m.yaml:3: topics.rename: a* and b: only one of them has a *; allowed: 'a-*': 'b-*', or names without *"]),
        (BOTH + "topics: {rename: {a: 'b c'}}", ["m.yaml:3: topics.rename: 'b c' cannot be a topic; allowed: letters, digits, '.', '_', '-', and one *"]),
        (BOTH + "topics: {rename: {a: __consumer_offsets}}", ["m.yaml:3: topics.rename: __consumer_offsets is a topic of Kafka's or of kproxy's own; allowed: another name"]),
        (BOTH + "topics: {rename: {a: " + "b" * 250 + "}}", ["m.yaml:3: topics.rename: '" + "b" * 57 + "...' is too long for a topic; allowed: 249 characters"]),
        (BOTH + "topics: {replication: 0}", ["m.yaml:3: topics.replication: '0' is out of range; allowed: 1 to 32767"]),
        (BOTH + "topics: {configs: {Retention: 1}}", ["m.yaml:3: topics.configs: 'Retention' is not a configuration of a topic; allowed: such as min.insync.replicas"]),
        (BOTH + "groups: {only: a}", ["m.yaml:3: groups.only: no such key; allowed: as-end, exclude, include"]),
        (BOTH + "limits: {max-rate: fast}", ["m.yaml:3: limits.max-rate: 'fast' is not a rate; allowed: MB/s, a number above 0"]),
        (BOTH + "limits: {max-rate: 0}", ["m.yaml:3: limits.max-rate: '0' is not a rate; allowed: MB/s, a number above 0"]),
        (BOTH + "schemas: {source: 'http://a'}", ["m.yaml:3: schemas.target: is missing; allowed: URL, or {url: URL, username: NAME"]),
        (BOTH + "schemas: {source: , target: 'http://b'}", ["m.yaml:3: schemas.source: has no value; allowed: https://HOST[:PORT]/PATH, or http://"]),
        (BOTH + "schemas: {source: 'http://user:secret@a', target: 'ftp://b'}", ["m.yaml:3: schemas.source: not a URL, or one with a password", "m.yaml:3: schemas.target: not a URL"]),
        (BOTH + "schemas: {source: {url: 'http://a', username: me}, target: 'http://b'}", ["m.yaml:3: schemas.source: has only one of username and password-file; allowed: both"]),
        (BOTH + "schemas: {source: {url: 'http://a?b'}, target: 'http://b:99999'}", ["m.yaml:3: schemas.source: has a url with another port, or with ? or #", "m.yaml:3: schemas.target: has a url"]),
        (BOTH + "schemas: {source: {url: 'http://a', token-file: t, username: me, password-file: p}, target: 'http://b', context: 'a/b'}", ["m.yaml:3: schemas.source: has username and token-file; allowed: one way to log in", "m.yaml:3: schemas.context: 'a/b' cannot be a context"]),
        (BOTH + "limits: {max-rate: }", ["m.yaml:3: limits.max-rate: has no value; allowed: MB/s, a number above 0"]),
    ],
)  # fmt: skip
def test_mistakes(file: Path, text: str, problems: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        made(file, text)
    assert len(caught.value.problems) == len(problems)
    for said, start in zip(caught.value.problems, problems, strict=True):
        assert said.startswith(start)


def test_all_mistakes_at_once(file: Path) -> None:
    text = "name: A\nsource: {tlss: yes}\ntopics: {include: 'a b', rename: {a: c, b: c}}\nlimits: {max-rate: x}\n"
    with pytest.raises(ConfigError) as caught:
        made(file, text)
    places = [line.split(": ")[1] for line in caught.value.problems]
    assert places == ["name", "source.tlss", "source.bootstrap-servers", "topics.include", "topics.rename",
                      "limits.max-rate", "target"]  # fmt: skip


def test_a_file_that_is_not_there(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"^nowhere\.yaml: does not exist; allowed: a readable YAML file$"):
        read_migration("nowhere.yaml")


def test_registries_as_addresses_and_as_sections(file: Path) -> None:
    text = "schemas: {source: 'http://a:8081', target: {url: 'https://b/x', username: me, password-file: p, ca: c}}"
    schemas = made(file, BOTH + text).schemas
    assert schemas is not None
    assert (schemas.source.url, schemas.target.url) == ("http://a:8081", "https://b/x")
    assert schemas.target.password_file is not None
    assert schemas.target.password_file.is_absolute()
