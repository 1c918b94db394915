"""`kproxy ls`, as a person runs it, for brokers that say what they like."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kproxy.cli import invoke
from kproxy.net.tls.handshakes import AdminTls, TlsFiles
from kproxy.proxy.status import asjson
from kproxy.proxy.status.model import ClusterStatus, Status
from tests.harness.servers.peers import Peer
from tests.harness.tls import Authority
from tests.unit.inspect.listing.fake import Listed, Told, Topic
from tests.unit.proxy.admin.endpoint import Running, endpoint


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(autouse=True)
def _no_admin(monkeypatch: pytest.MonkeyPatch, _own_environment: None) -> None:
    monkeypatch.setenv("KPROXY_ADMIN", "off")


class Cluster:
    """Brokers on this machine, with ids from 1, that tell the same; each is where it says that it is."""

    def __init__(self, told: Told, brokers: int, held: ExitStack) -> None:
        self.told = told
        self.brokers = [Listed(told, number) for number in range(1, brokers + 1)]
        self.peers = [held.enter_context(Peer(broker)) for broker in self.brokers]
        addresses = [peer.address.split(":") for peer in self.peers]
        told.nodes += [(number, host, int(port)) for number, (host, port) in enumerate(addresses, start=1)]
        self.bootstrap = self.peers[0].address


@pytest.fixture
def held() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def listed(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> list[str]:
    """The lines that `kproxy ls` prints."""
    assert invoke(["ls", *words]) == code
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert "--json" in words or max(map(len, lines)) <= 80
    return lines


def failed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The line that says why it failed."""
    assert invoke(["ls", *words]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    return err.removeprefix("kproxy: ").rstrip("\n")


def test_what_is_shown(held: ExitStack, capsys: pytest.CaptureFixture[str]) -> None:
    topics = [
        Topic("orders", [(1, (1, 2), (1, 2)), (2, (2, 1), (2,)), (-1, (1,), ())]),
        Topic("__consumer_offsets", internal=True),
        Topic("secret", (), error=29),
    ]
    settings = {"listeners": "A://:1", "advertised.listeners": "A://here:1"}
    cluster = Cluster(Told(topics=topics, settings=settings), 1, held)
    cluster.told.nodes.append((2, "nowhere.invalid", 9092))
    assert listed(capsys, cluster.bootstrap) == [
        f"cluster fake, as {cluster.bootstrap} says",
        "2 brokers, controller 2 (ZooKeeper), 2 topics (1 internal hidden), 3 partitions",
        "",
        "BROKER  ADVERTISED",
        f"     1  {cluster.bootstrap}",
        "     2  nowhere.invalid:9092",
        "",
        "TOPIC   PARTITIONS  REPLICAS  LEADERS  STATE",
        "orders           3       1-2  1 2      1 leaderless, 2 under-replicated",
        "secret           0         0  -        not allowed to see",
        "",
        "listeners of broker 1:",
        "LISTENER  PROTOCOL  BOUND  ADVERTISED  FOR",
        "A         A         :1     here:1",
        "(--listeners asks every broker that can be reached)",
    ]


def test_partitions_and_internal_topics(held: ExitStack, capsys: pytest.CaptureFixture[str]) -> None:
    topics = [Topic("orders", [(1, (1, 2), (1, 2)), (-1, (2, 1), (2,))]), Topic("inner", internal=True)]
    cluster = Cluster(Told(topics=topics), 1, held)
    lines = listed(capsys, cluster.bootstrap, "--partitions", "--internal")
    at = lines.index("TOPIC   PARTITION  LEADER  REPLICAS  ISR  STATE")
    assert lines[at + 1 : at + 4] == [
        "inner           0       1  1         1    ok",
        "orders          0       1  1,2       1,2  ok",
        "orders          1       -  2,1       2    leaderless, under-replicated",
    ]


def test_topics_by_name_and_by_glob(held: ExitStack, capsys: pytest.CaptureFixture[str]) -> None:
    topics = [Topic("a-1"), Topic("a-2"), Topic("b", internal=True)]
    cluster = Cluster(Told(topics=topics), 1, held)
    shown = [line.split()[0] for line in listed(capsys, cluster.bootstrap, "--topic", "b", "--topic", "a-2")[6:]]
    assert shown == ["TOPIC", "a-2", "b"]
    assert cluster.brokers[0].named[-1] == 2
    shown = [line.split()[0] for line in listed(capsys, cluster.bootstrap, "--topic", "a-*")[6:]]
    assert shown == ["TOPIC", "a-1", "a-2"]
    assert cluster.brokers[0].named[-1] == -1


def test_groups_of_every_broker_that_can_be_asked(held: ExitStack, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(Told(groups=["g", "evil\x1b[2J"]), 2, held)
    cluster.told.nodes.append((3, "nowhere.invalid", 9092))
    lines = listed(capsys, cluster.bootstrap, "--groups")
    at = lines.index("GROUP        COORDINATOR  STATE  PROTOCOL  KIND")
    assert lines[at + 1 :] == [
        "evil\\x1b[2J            1  ?      consumer  ?",
        "evil\\x1b[2J            2  ?      consumer  ?",
        "g                      1  ?      consumer  ?",
        "g                      2  ?      consumer  ?",
        "groups of broker 3: not asked: nowhere.invalid:9092: the name 'nowhere.invalid'",
        "  cannot be resolved here",
    ]
    found = json.loads("".join(listed(capsys, cluster.bootstrap, "--groups", "--json")))
    assert [group["coordinator"] for group in found["groups"]] == [1, 1, 2, 2]
    assert "cannot be resolved" in found["brokers"][2]["problem"]


def test_an_address_of_another_broker_is_not_asked_for_groups(
    held: ExitStack, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster(Told(groups=["g"]), 2, held)
    one, two = cluster.told.nodes
    cluster.told.nodes[:] = [(1, *one[1:]), (2, *one[1:]), (3, *two[1:])]
    text = " ".join(listed(capsys, cluster.bootstrap, "--groups"))
    assert "groups of broker 2: not asked:" in text
    assert "groups of broker 3: not asked:" in text
    assert "it is broker 1 of this cluster, not broker 2" in " ".join(text.split())


def test_rights_that_are_missing(held: ExitStack, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(Told(groups=30, settings=31), 1, held)
    assert listed(capsys, cluster.bootstrap)[-1] == "listeners of broker 1: not allowed to see"
    assert listed(capsys, cluster.bootstrap, "--groups")[-1] == "groups of broker 1: not allowed to see"
    cluster = Cluster(Told(), 2, held)
    for broker in cluster.brokers:
        broker.refusal = "no"
    assert "listeners: not allowed to see" in listed(capsys, cluster.bootstrap)


def test_a_hundred_brokers_and_ten_thousand_partitions(held: ExitStack, capsys: pytest.CaptureFixture[str]) -> None:
    topics = [
        Topic(f"topic-{number:04}", [(1 + at % 100, (1, 2, 3), (1, 2, 3)) for at in range(20)]) for number in range(500)
    ]
    cluster = Cluster(Told(topics=topics), 1, held)
    cluster.told.nodes += [(number, f"kafka-{number}.example", 9092) for number in range(2, 101)]
    lines = listed(capsys, cluster.bootstrap)
    assert lines[1] == "100 brokers, controller 2 (ZooKeeper), 500 topics, 10,000 partitions"
    assert "topic-0499          20         3  20 brokers  ok" in lines
    assert len(lines) < 620


def test_more_than_kproxy_reads(
    held: ExitStack, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """5 MiB of topics: the line says how to ask for fewer."""
    topics = [Topic(f"{number:05}" + "x" * 240) for number in range(18_000)]
    cluster = Cluster(Told(topics=topics), 1, held)
    said = failed(capsys, cluster.bootstrap)
    assert said.startswith("all topics: the answer has 5")
    assert said.endswith("bytes, and kproxy reads 4194304 at most: name fewer topics with --topic NAME")
    assert listed(capsys, cluster.bootstrap, "--topic", topics[7].name)[1].endswith("1 topic, 1 partition")


def test_texts_of_a_hostile_broker(held: ExitStack, capsys: pytest.CaptureFixture[str]) -> None:
    """They neither move the cursor nor leave their cell."""
    evil = "\x1b[2J\r\n\u202e" + "x" * 300
    settings = {"listeners": f"{evil}://:1", "advertised.listeners": f"{evil}://{evil}:1"}
    cluster = Cluster(Told(topics=[Topic(evil)], settings=settings, cluster_id=evil), 1, held)
    cluster.told.nodes.append((2, evil, 9092))
    for words in ([], ["--partitions"], ["--groups", "--listeners"]):
        assert all(line.isprintable() for line in listed(capsys, cluster.bootstrap, *words))


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "no bootstrap server is given"),
        (["a", "-b", "b"], "the bootstrap servers are given twice: HOST:PORT and -b (see 'kproxy ls --help')"),
        (["a", "--through", "b"], "--through is for --compare (see 'kproxy ls --help')"),
        (["a", "--compare", "--groups"], "--compare shows neither groups nor listeners nor each partition (see"),
        (["a", "--compare", "--through", "b:x"], "--through: 'x' is not a port"),
        (["a", "--listen", "b"], "no such option '--listen'"),
        (["127.0.0.1:1"], "no bootstrap server answers: 127.0.0.1:1: connection refused"),
        (["a:x"], "bootstrap-servers: 'x' is not a port"),
    ],
)
def test_what_cannot_be(words: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert line.partition(": ")[2] in failed(capsys, *words)


def test_a_cluster_that_wants_a_login(held: ExitStack, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(Told(), 1, held)
    cluster.brokers[0].deaf_to = {3}
    assert failed(capsys, cluster.bootstrap) == "the brokers answer after a login only: log in with --sasl"


# --compare


def test_nothing_but_addresses_differs(held: ExitStack, capsys: pytest.CaptureFixture[str]) -> None:
    told = Told(topics=[Topic("a"), Topic("b")])
    direct = Cluster(told, 1, held)
    through = Cluster(Told(topics=told.topics), 1, held)
    lines = listed(capsys, direct.bootstrap, "--compare", "--through", through.bootstrap)
    assert lines[3].split() == ["broker", "1", direct.bootstrap, through.bootstrap]
    assert lines[-1] == "nothing differs but addresses: 2 topics, 2 partitions"


def test_what_differs_is_marked(held: ExitStack, capsys: pytest.CaptureFixture[str]) -> None:
    direct = Cluster(Told(topics=[Topic("a"), Topic("b"), Topic("c")]), 2, held)
    others = [Topic("a", [(2, (1,), (1,))]), Topic("b", [(1, (1,), (1,))] * 2), Topic("d")]
    through = Cluster(Told(topics=others, cluster_id="another"), 1, held)
    words = (direct.bootstrap, "--compare", "--through", through.bootstrap)
    lines = listed(capsys, *words, code=1)
    marked = [line.split()[:2] for line in lines if line.endswith("DIFFERS")]
    assert marked == [
        ["cluster", "id"],
        ["broker", "2"],
        ["a-0", "leader"],
        ["topic", "b"],
        ["topic", "c"],
        ["topic", "d"],
    ]
    assert lines[-1] == "6 differences that kproxy must not make"
    found = json.loads("".join(listed(capsys, *words, "--json", code=1)))
    assert found["differences"][2] == {"what": "a-0 leader", "direct": "1", "through": "2"}
    assert len(found["direct"]["topics"]) == 3


def test_a_leader_that_has_just_moved_is_no_difference(held: ExitStack, capsys: pytest.CaptureFixture[str]) -> None:
    """Each is asked again."""
    direct = Cluster(Told(topics=[Topic("a")]), 1, held)
    through = Cluster(Told(topics=[Topic("a", [(9, (1,), (1,))])]), 1, held)

    class Moving(Listed):
        def answer(self, connection: object, request: bytes) -> bool:
            answered = super().answer(connection, request)
            if self.named:
                self.told.topics = direct.told.topics
            return answered

    through.brokers[0].__class__ = Moving
    listed(capsys, direct.bootstrap, "--compare", "--through", through.bootstrap)
    assert len(through.brokers[0].named) == 2


def test_no_kproxy_to_compare_with(held: ExitStack, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(Told(), 1, held)
    assert failed(capsys, cluster.bootstrap, "--compare").startswith("--admin is off, so that no kproxy can be found")
    said = failed(capsys, cluster.bootstrap, "--compare", "--admin", "127.0.0.1:1")
    assert said == "no kproxy answers at 127.0.0.1:1 (--admin): Connection refused"


TOKEN = "a-token-of-these-tests"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[Running, Authority, Path]]:
    """The admin endpoint of a kproxy for the cluster `fake`, with TLS and a token for all pages; its token file."""
    authority = Authority(tmp_path)
    cert, key = authority.files("kproxy.team.svc")
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    with endpoint("127.0.0.1", AdminTls(TlsFiles(cert=cert, key=key))) as here:
        one = ClusterStatus(
            name="default", bootstrap_servers=(), via=(), listen="127.0.0.1:19092", bootstrap="127.0.0.1:19092",
            cluster_id="fake", answered=True, searched=True, problem=None, login_refused=False, full=None, sessions=0,
            nodes=(),
        )  # fmt: skip
        here.status |= json.loads(asjson.write(Status(version="1", draining=False, clusters=(one,))))
        here.set(token=TOKEN, require_token_for_reads=True)
        yield here, authority, file


def test_a_kproxy_with_tls_and_a_token(
    guarded: tuple[Running, Authority, Path],
    held: ExitStack,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    running, authority, file = guarded
    cluster = Cluster(Told(), 1, held)
    admin = str(running.admin.address)

    def served(*words: str) -> bool:
        return f"kproxy (--admin {admin}) serves it" in "\n".join(listed(capsys, cluster.bootstrap, *words))

    trusted = ["--admin-ca", str(authority.pem)]
    with_token = ["--admin-token-file", str(file)]
    assert served("--admin", f"https://{admin}", *trusted, *with_token)
    assert served("--admin", admin, *trusted, *with_token)
    assert not served("--admin", admin, *trusted)
    assert not served("--admin", f"https://{admin}", *with_token)
    said = failed(capsys, cluster.bootstrap, "--compare", "--admin", admin, *trusted)
    assert said.startswith(f"kproxy at {admin} (--admin) requires a token")
    cert, key = (authority.directory / f"kproxy.team.svc.{kind}" for kind in ("pem", "key"))
    own = tmp_path / "kproxy.yaml"
    own.write_text(
        f"admin: {admin}\nadmin-tls-cert: {cert}\nadmin-tls-key: {key}\nadmin-token-file: {file}\n"
        "admin-require-token-for-reads: true\n"
    )
    monkeypatch.delenv("KPROXY_ADMIN")
    assert served("-c", str(own))  # the file of the kproxy itself says all of it
    monkeypatch.setenv("KPROXY_ADMIN", f"https://{admin}")
    monkeypatch.setenv("KPROXY_ADMIN_TOKEN", TOKEN)
    assert served(*trusted)


def test_a_token_that_cannot_be_read(held: ExitStack, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """It matters to those who give it, and not where a file of another user's kproxy names it."""
    cluster = Cluster(Told(), 1, held)
    gone = tmp_path / "gone"
    said = failed(capsys, cluster.bootstrap, "--admin", "127.0.0.1:1", "--admin-token-file", str(gone))
    assert said == f"--admin-token-file: {gone} cannot be read: No such file or directory"
    (tmp_path / "kproxy.yaml").write_text(f"admin: 127.0.0.1:1\nadmin-token-file: {gone}\n")
    assert listed(capsys, cluster.bootstrap, "-c", str(tmp_path / "kproxy.yaml"))


@pytest.mark.parametrize(
    "host",
    ["b-1.orders-production.a1b2c3.c7.kafka.eu-central-1.amazonaws.com", "2001:db8:85a3:8d3:1319:8a2e:370:7348", "k"],
)
def test_no_table_cuts_a_port(host: str, held: ExitStack, capsys: pytest.CaptureFixture[str]) -> None:
    """At 80 columns, as `listed` looks."""
    within = f"[{host}]" if ":" in host else host
    where = f"SASL_SSL://{within}:19098"
    settings = {
        "listeners": where,
        "advertised.listeners": where,
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL",
    }
    cluster = Cluster(Told(settings=settings), 1, held)
    cluster.told.nodes.append((2, host, 29098))
    lines = listed(capsys, cluster.bootstrap, "--listeners")
    assert [line[-6:] for line in lines if line.lstrip().startswith("2  ")] == [":29098"]
    (listener,) = (line for line in lines if line.startswith("SASL_SSL "))
    assert listener.count(":19098") == 2
