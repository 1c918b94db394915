"""Whom an address leads to: which questions tell, and in which order."""

from __future__ import annotations

import contextlib

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError
from kproxy.protocol.rewrite.endpoints import NodeKind
from kproxy.protocol.wire.api import ApiKey
from kproxy.proxy.cluster import identity
from kproxy.proxy.cluster.identity import BrokerIdentifier, ClosedOnOptionalRequest, LoginRequired
from kproxy.proxy.cluster.reachability import Proof
from kproxy.proxy.cluster.topology import LocalPorts, Node, NodeKey, Topology
from tests.harness.servers.answers import ALL, configs, coordinator, groups, metadata, offsets, refusal, versions
from tests.unit.client.ask.broker import Broker

BROKERS = {1: "kafka-1.in:9092", 2: "kafka-2.in:9092", 3: "kafka-3.in:9092"}
ONE, TWO = NodeKey(NodeKind.BROKER, 1), NodeKey(NodeKind.BROKER, 2)
TOPICS = {"a": [1, 2, 3], "b": [1, 2, 3]}
DENIED = configs(error=31)


class Cluster(Broker):
    """Broker `node` of three. `tells` says what it tells this user: its id, leaders, groups."""

    def __init__(self, node: int, *tells: str, brokers: dict[int, str] = BROKERS, login: bool = True) -> None:
        super().__init__({ApiKey.API_VERSIONS: versions()})
        self.node, self.tells, self.logged_in, self.refused = node, tells, login, 0
        none: dict[str, list[int]] = {}

        def listed(body: bytes) -> bytes:
            if not self.logged_in:
                raise EOFError
            return metadata("id-1", brokers, TOPICS if body == b"\xff\xff\xff\xff" and "leaders" in tells else none)

        self.answers[ApiKey.METADATA] = listed
        self.answers[ApiKey.DESCRIBE_CONFIGS] = self._configs
        self.answers[ApiKey.LIST_OFFSETS] = lambda body: offsets(
            {(name, index): 0 if leader == self.node else 6
             for name, leaders in TOPICS.items() for index, leader in enumerate(leaders)}
        )  # fmt: skip
        self.answers[ApiKey.LIST_GROUPS] = groups("g") if "groups" in tells else groups()
        self.answers[ApiKey.FIND_COORDINATOR] = coordinator(node)

    def _configs(self, body: bytes) -> bytes:
        if "its id" not in self.tells:
            return DENIED
        asked = body[7 : 7 + body[6]].decode()
        if asked == str(self.node):
            return configs()
        self.refused += 1
        return refusal(self.node)


@pytest.fixture
def identities() -> BrokerIdentifier:
    return BrokerIdentifier(Topology(LocalPorts(1, 100)))


@pytest.mark.parametrize(
    ("tells", "proof"),
    [
        (("its id", "leaders", "groups"), Proof.OWN_WORD),
        (("leaders", "groups"), Proof.LEADER),
        (("groups",), Proof.COORDINATOR),
    ],
)
@pytest.mark.parametrize("node", [1, 2, 3])
async def test_what_tells(identities: BrokerIdentifier, tells: tuple[str, ...], proof: Proof, node: int) -> None:
    found = await identities.identify(Cluster(node, *tells), ONE)
    assert (found.cluster_id, found.key, found.proof) == ("id-1", NodeKey(NodeKind.BROKER, node), proof)


async def test_nothing_tells(identities: BrokerIdentifier) -> None:
    found = await identities.identify(Cluster(2), ONE)
    assert (found.cluster_id, found.key, found.proof) == ("id-1", None, None)


@pytest.mark.parametrize(
    ("names", "node"),
    [
        (("kafka-2.in",), 2),
        (("KAFKA-2.in.", "localhost"), 2),
        (("kafka-1.in", "kafka-2.in"), None),  # one certificate for several
        (("*.in", "kafka-2.in"), None),
        (("localhost",), None),
        ((), None),
    ],
)
async def test_a_certificate_tells_if_it_is_one_node_s(
    identities: BrokerIdentifier, names: tuple[str, ...], node: int | None
) -> None:
    found = await identities.identify(Cluster(2), ONE, names)
    assert found.key == (None if node is None else NodeKey(NodeKind.BROKER, node))
    assert found.proof is (None if node is None else Proof.CERTIFICATE)


async def test_of_one_broker_there_is_nothing_to_ask(identities: BrokerIdentifier) -> None:
    found = await identities.identify(Cluster(1, brokers={1: "kafka-1.in:9092"}), ONE)
    assert (found.key, found.proof) == (ONE, Proof.ONLY_BROKER)


async def test_one_broker_that_is_left_of_several_is_not_the_only_one() -> None:
    topology = Topology(LocalPorts(1, 100))
    topology.nodes[TWO] = Node(TWO, Address("kafka-2.in", 9092), absent_since=1.0)
    found = await BrokerIdentifier(topology).identify(Cluster(2, brokers={1: "kafka-1.in:9092"}), ONE)
    assert found.key is None


async def test_a_broker_that_is_the_expected_one_has_nothing_to_refuse(identities: BrokerIdentifier) -> None:
    """A refusal stands in the broker's log: only the first one is needed."""
    refused = []
    for node in (1, 1, 2, 2):
        cluster = Cluster(node, "its id")
        assert (await identities.identify(cluster, NodeKey(NodeKind.BROKER, node))).key == NodeKey(
            NodeKind.BROKER, node
        )
        refused.append(cluster.refused)
    assert refused == [1, 0, 0, 0]


async def test_who_takes_any_id_for_its_own_is_not_believed(identities: BrokerIdentifier) -> None:
    cluster = Cluster(1)
    cluster.answers[ApiKey.DESCRIBE_CONFIGS] = configs()
    for _ in range(2):
        assert (await identities.identify(cluster, TWO)).key is None


# Leaders that move


async def test_leaders_that_have_moved_are_looked_up_again(identities: BrokerIdentifier) -> None:
    assert (await identities.identify(Cluster(2, "leaders"))).key == TWO
    cluster = Cluster(2, "leaders")
    moved = {("a", 0): 0, ("a", 1): 0, ("a", 2): 6, ("b", 0): 6, ("b", 1): 6, ("b", 2): 6}
    answers = [offsets(moved), offsets({key: 0 if key[1] == 1 else 6 for key in moved})]
    cluster.answers[ApiKey.LIST_OFFSETS] = lambda body: answers.pop(0)
    assert (await identities.identify(cluster)).key == TWO
    assert cluster.asked.count(ApiKey.METADATA) == 2
    assert answers == []


async def test_leaders_that_go_on_moving_tell_nothing(identities: BrokerIdentifier) -> None:
    cluster = Cluster(2, "leaders")
    cluster.answers[ApiKey.LIST_OFFSETS] = offsets({("a", 0): 0, ("a", 1): 0, ("a", 2): 6})
    assert (await identities.identify(cluster)).key is None


async def test_leaders_that_the_user_no_longer_sees_tell_nothing(identities: BrokerIdentifier) -> None:
    """Leaders have not moved, so they are not looked up again."""
    await identities.identify(Cluster(2, "leaders"))
    cluster = Cluster(2, "groups")
    hidden = 29  # TOPIC_AUTHORIZATION_FAILED
    cluster.answers[ApiKey.LIST_OFFSETS] = offsets({(name, index): hidden for name in TOPICS for index in range(3)})
    assert (await identities.identify(cluster)).proof is Proof.COORDINATOR
    assert cluster.asked.count(ApiKey.METADATA) == 1


async def test_an_answer_that_cannot_be_read_tells_nothing(identities: BrokerIdentifier) -> None:
    """The broker has answered: kproxy goes on to the next question."""
    cluster = Cluster(2, "leaders")
    cluster.answers[ApiKey.DESCRIBE_CONFIGS] = b"\0"
    found = await identities.identify(cluster)
    assert (found.key, found.proof) == (TWO, Proof.LEADER)


async def test_a_broker_that_stops_answering_is_not_identified(identities: BrokerIdentifier) -> None:
    """Without an answer to a question kproxy does not know what else is on its way."""
    cluster = Cluster(2, "leaders")
    cluster.answers[ApiKey.DESCRIBE_CONFIGS] = TimeoutError()
    with pytest.raises(UpstreamError, match=r"^no answer$") as caught:
        await identities.identify(cluster)
    assert caught.value.reason == "timeout"
    assert not isinstance(caught.value, ClosedOnOptionalRequest)


# Logins


async def test_a_broker_that_answers_after_a_login_only(identities: BrokerIdentifier) -> None:
    assert not identities.requires_login
    with pytest.raises(LoginRequired):
        await identities.identify(Cluster(1, "its id", login=False))
    assert identities.requires_login
    assert (await identities.identify(Cluster(1, "its id"), logged_in=True)).key == ONE


async def test_a_broker_that_answered_without_login_needs_none_later(identities: BrokerIdentifier) -> None:
    await identities.identify(Cluster(1, "its id"))
    with pytest.raises(UpstreamError) as error:
        await identities.identify(Cluster(1, "its id", login=False))
    assert not isinstance(error.value, LoginRequired)
    assert not identities.requires_login


# Brokers that hang up on a question


@pytest.mark.parametrize("key", [ApiKey.DESCRIBE_CONFIGS, ApiKey.LIST_OFFSETS, ApiKey.LIST_GROUPS])
async def test_a_request_that_makes_a_broker_hang_up_is_not_repeated(identities: BrokerIdentifier, key: int) -> None:
    asked = 0
    for _ in range(5):
        cluster = Cluster(1, *(() if key == ApiKey.LIST_GROUPS else ("leaders",)))
        cluster.answers[key] = EOFError()
        with contextlib.suppress(ClosedOnOptionalRequest):
            await identities.identify(cluster)
        asked += cluster.asked.count(key)
    assert asked == 2


async def test_it_is_asked_again_later(identities: BrokerIdentifier, monkeypatch: pytest.MonkeyPatch) -> None:
    """That the connection broke at that moment twice may have been chance."""
    broken = Cluster(1)
    broken.answers[ApiKey.DESCRIBE_CONFIGS] = EOFError()
    for _ in range(2):
        with pytest.raises(ClosedOnOptionalRequest):
            await identities.identify(broken)
    assert (await identities.identify(Cluster(1, "its id"))).key is None
    now = identity.monotonic()
    monkeypatch.setattr(identity, "monotonic", lambda: now + 301)
    assert (await identities.identify(Cluster(1, "its id"))).proof is Proof.OWN_WORD


@pytest.mark.parametrize(
    ("key", "tells", "proof"),
    [
        (ApiKey.DESCRIBE_CONFIGS, "its id", Proof.OWN_WORD),
        (ApiKey.LIST_OFFSETS, "leaders", Proof.LEADER),
        (ApiKey.LIST_GROUPS, "groups", Proof.COORDINATOR),
    ],
)
async def test_a_question_that_was_answered_once_is_always_asked(
    identities: BrokerIdentifier, key: int, tells: str, proof: Proof
) -> None:
    """Connections break at that moment too. Else kproxy would never again know whom it reaches."""
    assert (await identities.identify(Cluster(1, tells))).proof is proof
    broken = Cluster(1, tells)
    broken.answers[key] = EOFError()
    for _ in range(5):
        with pytest.raises(ClosedOnOptionalRequest):
            await identities.identify(broken)
    assert (await identities.identify(Cluster(1, tells))).proof is proof


@pytest.mark.parametrize("served", [{}, {ApiKey.METADATA: (0, 1)}, {key: (9, 9) for key in ALL}])
async def test_brokers_of_any_kind_are_asked_what_they_serve(
    identities: BrokerIdentifier, served: dict[int, tuple[int, int]]
) -> None:
    cluster = Cluster(1, "its id", "leaders", "groups")
    cluster.answers[ApiKey.API_VERSIONS] = versions(served)
    await identities.identify(cluster)
    assert set(cluster.asked) <= {ApiKey.API_VERSIONS, ApiKey.METADATA}
