"""What `kproxy discover` makes of the configurations of other tools, in the forms that these tools write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kproxy.inspect.discover import search, tools
from kproxy.inspect.discover.results import ClusterCandidate, PlaceResult
from tests.unit.deploy.deployed import try_command

RPK = """\
version: 7
current_profile: prod
profiles:
    - name: local
      kafka_api:
        brokers:
            - 127.0.0.1:9092
    - name: prod
      kafka_api:
        brokers: [seed-1.example:9092, seed-2.example]
        tls: {}
        sasl:
            user: u
            password: secret-of-rpk
            mechanism: SCRAM-SHA-256
    - name: own
      kafka_api:
        brokers: [a.example:1]
        tls: {ca_file: /ca.pem, cert_file: /cert.pem, key_file: /key.pem, insecure_skip_verify: true}
    - name: without
      admin_api: {addresses: [a.example:9644]}
"""
KAF = """\
current-cluster: local
clusters:
- name: local
  version: ""
  brokers: [kafka-0.kafka:9092]
  SASL: {mechanism: PLAIN, username: user, password: secret-of-kaf}
  TLS: null
  security-protocol: ""
- name: tls
  brokers: [k:9093]
  SASL: null
  TLS: {cafile: /ca.pem, clientfile: "", clientkeyfile: "", insecure: false}
  security-protocol: SASL_SSL
"""
KAFKACTL = """\
contexts:
  default:
    brokers: [localhost:9092]
  remote:
    brokers: [r1:9092, r2:9092]
    tls: {enabled: true, ca: my-ca, cert: my-cert, certKey: my-key}
    sasl: {enabled: true, username: admin, password: secret-of-kafkactl, mechanism: scram-sha512}
  inside:
    brokers: [broker1:9092]
    tls: {enabled: false, ca: my-ca}
    sasl: {enabled: false}
    kubernetes: {enabled: true, kubeContext: k8s-cluster, namespace: kafka}
current-context: default
"""
CONFLUENT = {
    "current_context": "login",
    "contexts": {
        "login": {
            "name": "login",
            "kafka_cluster_context": {
                "environment_context": True,
                "kafka_environment_contexts": {
                    "env-1": {
                        "active_kafka": "lkc-1",
                        "kafka_cluster_infos": {
                            "lkc-1": {
                                "id": "lkc-1", "name": "orders",
                                "bootstrap_servers": "SASL_SSL://pkc-1.eu-west-1.aws.confluent.cloud:9092",
                                "api_keys": {"K": {"api_key": "K", "api_secret": "secret-of-confluent"}},
                            }
                        },
                    }
                },
            },
        },
        "own": {"kafka_cluster_context": {"kafka_cluster_configs": {"x": {"id": "x", "bootstrap_servers": "cp:9092"}}}},
    },
}  # fmt: skip
KCAT = "# of the team\nbootstrap.servers=kc.example:9093\nsecurity.protocol=ssl\n"
FILES = {
    ".config/rpk/rpk.yaml": RPK,
    ".kaf/config": KAF,
    ".config/kafkactl/config.yml": KAFKACTL,
    ".confluent/config.json": json.dumps(CONFLUENT),
    ".config/kcat.conf": KCAT,
}


def write(home: Path, name: str, text: str) -> Path:
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def look(home: Path) -> PlaceResult:
    place = tools.search_tools(home, home, {})
    assert place is not None
    return place


def by_what(home: Path) -> dict[str, ClusterCandidate]:
    place = look(home)
    assert place.problem == ""
    return {one.description: one for one in place.candidates}


def test_each_tool(tmp_path: Path) -> None:
    for name, text in FILES.items():
        write(tmp_path, name, text)
    found = by_what(tmp_path)
    assert {what: " ".join(one.words) for what, one in found.items()} == {
        "rpk, local: 127.0.0.1:9092": "run -b 127.0.0.1:9092",
        "rpk, prod: seed-1.example:9092,seed-2.example": "run -b seed-1.example:9092,seed-2.example:9092 --tls",
        "rpk, own: a.example:1": "run -b a.example:1 --tls --tls-ca /ca.pem --tls-cert /cert.pem --tls-key /key.pem",
        "kaf, local: kafka-0.kafka:9092": "run -b kafka-0.kafka:9092",
        "kaf, tls: k:9093": "run -b k:9093 --tls --tls-ca /ca.pem",
        "kafkactl, default: localhost:9092": "run -b localhost:9092",
        "kafkactl, remote: r1:9092,r2:9092": (
            "run -b r1:9092,r2:9092 --tls --tls-ca my-ca --tls-cert my-cert --tls-key my-key"
        ),
        "kafkactl, inside: broker1:9092": "run --via k8s://k8s-cluster/kafka -b broker1:9092",
        "Confluent CLI, orders: pkc-1.eu-west-1.aws.confluent.cloud:9092": (
            "run -b pkc-1.eu-west-1.aws.confluent.cloud:9092 --tls"
        ),
        "Confluent CLI, x: cp:9092": "run -b cp:9092",
        "~/.config/kcat.conf: bootstrap.servers=kc.example:9093": f"run --client-config {tmp_path}/.config/kcat.conf",
    }
    for one in found.values():
        assert "secret-of" not in repr(one)
    assert (
        "clients log in themselves (SCRAM-SHA-256), as without kproxy"
        in found["rpk, prod: seed-1.example:9092,seed-2.example"].notes
    )
    assert (
        "the tool accepts any certificate; kproxy does so only with --tls-insecure"
        in found["rpk, own: a.example:1"].notes
    )


def test_the_commands_are_commands_of_kproxy(tmp_path: Path) -> None:
    for name, text in FILES.items():
        write(tmp_path, name, text)
    # kproxy opens the certificates, which are not there.
    tried = [one.words for one in by_what(tmp_path).values() if "--tls-ca" not in one.words]
    assert len(tried) == 8
    for words in tried:
        try_command(words, {})


def test_nobody_who_uses_none_of_them_hears_of_it(tmp_path: Path) -> None:
    assert tools.search_tools(tmp_path, tmp_path, {}) is None
    assert tools.search_tools(tmp_path / "nowhere", tmp_path / "nowhere", {"KCAT_CONFIG": "/dev/null/x"}) is None


def test_a_file_that_is_called_as_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "-", KCAT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", None)  # whoever reads it fails
    place = tools.search_tools(tmp_path, tmp_path, {"KCAT_CONFIG": "-"})
    assert place is not None
    assert (len(place.candidates), place.problem) == (1, "")


def test_where_the_environment_says(tmp_path: Path) -> None:
    environment = {
        "XDG_CONFIG_HOME": str(tmp_path / "xdg"),
        "KCAT_CONFIG": str(write(tmp_path, "mine/kcat", KCAT)),
        "KAFKA_CTL_CONFIG": str(write(tmp_path, "mine/kafkactl", "contexts: {c: {brokers: [there:1]}}\n")),
    }
    write(tmp_path, "xdg/rpk/rpk.yaml", "profiles: [{name: x, kafka_api: {brokers: [xdg:1]}}]\n")
    write(tmp_path, "kafkactl.yml", "contexts: {c: {brokers: [here:1]}}\n")
    place = tools.search_tools(tmp_path, tmp_path, environment)
    assert place is not None
    assert [one.description for one in place.candidates] == [
        "~/mine/kcat: bootstrap.servers=kc.example:9093", "rpk, x: xdg:1", "kafkactl, c: there:1",
    ]  # fmt: skip
    del environment["KAFKA_CTL_CONFIG"]
    place = tools.search_tools(tmp_path, tmp_path, environment)
    assert place is not None
    assert place.candidates[-1].description == "kafkactl, c: here:1"


def test_a_user_without_files_and_a_user_who_asks_only_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "KCAT_CONFIG", "KAFKACAT_CONFIG", "KAFKA_CTL_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    assert list(search.search_places(tmp_path, None, None, (search.TOOLS,))) == [PlaceResult(tools.NAME)]
    assert [one.name for one in search.search_places(tmp_path, None, None, (search.FILES, search.TOOLS))] == [
        "files here"
    ]


NONSENSE = [
    "", "x", "[]", "null", "profiles: 3", "profiles: [3, null, {}]", "profiles: [{kafka_api: []}]",
    "profiles: [{kafka_api: {brokers: x}}]", "profiles: [{kafka_api: {brokers: [{}, [], null]}}]",
    "clusters: {a: b}", "clusters: [{brokers: 1}]", "contexts: [1]", "contexts: {a: 1, b: null}",
    "contexts: {a: {kafka_cluster_context: {kafka_cluster_configs: [1], kafka_environment_contexts: {e: 1}}}}",
    "contexts: {a: {kafka_cluster_context: {kafka_cluster_configs: {x: {bootstrap_servers: [1]}}}}}",
    "contexts: {a: {kafka_cluster_context: {kafka_cluster_configs: {x: {bootstrap_servers: ' , ://'}}}}}",
]  # fmt: skip


@pytest.mark.parametrize("text", NONSENSE)
@pytest.mark.parametrize("name", [name for name in FILES if not name.endswith("kcat.conf")])
def test_nonsense_is_nothing(tmp_path: Path, name: str, text: str) -> None:
    write(tmp_path, name, text)
    place = look(tmp_path)
    assert (list(place.candidates), place.problem) == ([], "")


@pytest.mark.parametrize("name", [name for name in FILES if not name.endswith("kcat.conf")])
@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"a: [\n", "the file is not YAML"),
        (b"[" * 100_000, "nested more than"),
        (b"a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]\nprofiles: *c\nclusters: *c\ncontexts: {<<: *c}\n", ""),
        (bytes(range(256)), ":"),
        (b"\0" * (2 << 20), "larger than 1 MiB"),
    ],
    ids=["broken", "deep", "aliases", "binary", "large"],
)
def test_what_cannot_be_read_is_said_and_hinders_no_other(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    for other, text in FILES.items():
        write(tmp_path, other, text)
    (tmp_path / name).write_bytes(content)
    place = look(tmp_path)
    assert place.candidates
    if says:
        assert place.problem.startswith(f"~/{name}: ")
        assert says in place.problem


@pytest.mark.parametrize("broker", ["a b:9092", "a:b:c", "a:99999", "a:0x1", "-h:x", "/x:1"])
def test_an_address_that_is_none(tmp_path: Path, broker: str) -> None:
    write(tmp_path, ".kaf/config", f'clusters: [{{name: "\\e[0mx", brokers: ["{broker}"]}}]\n')
    (one,) = look(tmp_path).candidates
    assert (one.words, one.notes) == ((), ("~/.kaf/config has an invalid address",))
    assert one.description.isprintable()


def test_an_address_of_which_a_terminal_would_do_something(tmp_path: Path) -> None:
    write(tmp_path, ".kaf/config", 'clusters: [{name: x, brokers: ["\\e[31mred:9092"]}]\n')
    assert all(
        text.isprintable() for one in look(tmp_path).candidates for text in (one.description, *one.words, *one.notes)
    )


def test_names_of_files_that_cannot_be_shown(tmp_path: Path) -> None:
    write(
        tmp_path, ".kaf/config", 'clusters: [{name: x, brokers: [a], TLS: {cafile: "/a\\nb", clientfile: "--tls"}}]\n'
    )
    (one,) = look(tmp_path).candidates
    assert one.words == ("run", "-b", "a:9092", "--tls")
    assert len(one.notes) == 3


def test_more_than_anybody_reads(tmp_path: Path) -> None:
    many = ", ".join(f"{{name: c{number}, brokers: [b{number}]}}" for number in range(150))
    write(tmp_path, ".kaf/config", f"clusters: [{many}]\n")
    place = look(tmp_path)
    assert (len(place.candidates), place.left_out) == (100, "50 clusters after these")
