"""When another Kafka cluster may be served in place of the former one, by what the bootstrap servers answer."""

from __future__ import annotations

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import KproxyError, UpstreamError
from kproxy.client.ask.questions import ClusterNodes
from kproxy.protocol.rewrite.endpoints import NodeKind
from kproxy.proxy.cluster.identity import BrokerIdentity, LoginRequired
from kproxy.proxy.cluster.newcluster import NewCluster, NewClusterClock, NotAccepted, new_cluster

A, B, C = (Address("kafka", port) for port in (1, 2, 3))
REFUSED = UpstreamError("refused", "connection refused")


def of(cluster_id: str | None) -> BrokerIdentity:
    return BrokerIdentity(ClusterNodes(cluster_id, NodeKind.BROKER, ()), None, None)


@pytest.mark.parametrize(
    ("answers", "silent"),
    [
        ({A: of("new")}, ()),
        ({A: of("new"), B: of("new"), C: of("new")}, ()),
        ({A: REFUSED, B: of("new"), C: LoginRequired()}, (A, C)),
    ],
    ids=["one server", "all agree", "others are silent"],
)
def test_what_all_who_answer_agree_on(
    answers: dict[Address, BrokerIdentity | KproxyError], silent: tuple[Address, ...]
) -> None:
    first = next(server for server, answer in answers.items() if isinstance(answer, BrokerIdentity))
    assert new_cluster("old", answers) == NewCluster("new", first, silent)


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        ({A: of("new"), B: of("other")}, "different clusters: kafka:1 (cluster id new), kafka:2 (cluster id o"),
        ({A: of("new"), B: of("old")}, "belong to different clusters"),
        ({A: of("new"), B: of(None)}, "kafka:2 answers, but does not say which cluster it belongs to"),
        ({A: of(None)}, "does not say which cluster it belongs to"),
        ({A: REFUSED, B: REFUSED}, "no bootstrap server answers: connection refused"),
        ({A: LoginRequired(), B: REFUSED}, "only after a login"),
    ],
    ids=["two new ones", "new and old", "one without id", "no id", "nobody", "login"],
)  # fmt: skip
def test_nothing_that_is_not_clear(answers: dict[Address, BrokerIdentity | KproxyError], text: str) -> None:
    with pytest.raises(NotAccepted) as caught:
        new_cluster("old", answers)
    assert text in str(caught.value)
    assert not caught.value.unchanged


@pytest.mark.parametrize("served_id", ["same", None], ids=["served", "nothing served yet"])
def test_the_served_one_is_no_new_one(served_id: str | None) -> None:
    with pytest.raises(NotAccepted, match=r"^nothing has changed: .*\(id same\)$") as caught:
        new_cluster(served_id, {A: of("same"), B: REFUSED})
    assert caught.value.unchanged


def test_the_time_counts_while_one_new_cluster_answers_everywhere() -> None:
    clock, new = NewClusterClock(), NewCluster("new", A)
    assert [clock.observe(new, now) for now in (10.0, 11.5, 14.0)] == [0.0, 1.5, 4.0]
    assert clock.observe(NewCluster("new", B), 15.0) == 5.0  # whichever server is the first
    assert clock.observe(NewCluster("another", A), 16.0) == 0.0
    assert clock.observe(new, 17.0) == 0.0
    assert clock.observe(new, 19.0) == 2.0
    clock.reset()
    assert clock.observe(new, 20.0) == 0.0
    assert clock.observe(NewCluster("new", A, silent=(B,)), 30.0) == 0.0
    assert clock.observe(new, 31.0) == 0.0
