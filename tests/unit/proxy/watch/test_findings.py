"""What is summed up, and when it is a finding. Each is found for real in tests/integration/cluster/test_live.py."""

from __future__ import annotations

from dataclasses import replace
from struct import pack
from typing import Any

import pytest

from kproxy.base.faults import Fault
from kproxy.proxy.relay.observer import Exchange
from kproxy.proxy.status.model import SessionStatus
from kproxy.proxy.watch import tally as tallying
from kproxy.proxy.watch.feed import ObservedExchange, SessionLabels
from kproxy.proxy.watch.findings import FindingTracker, LiveDiagnostic, live_diagnostic
from kproxy.proxy.watch.rates import LastError
from kproxy.proxy.watch.tally import ClientKey, Tally
from tests.unit.proxy.watch.made import NOW, PORTS, TOLD, cluster, node, session


def passed(
    key: int, at: float, label: str = "bootstrap", client: str = "10.1.1.1:5000", name: str = "default", **more: object
) -> ObservedExchange:
    exchange = Exchange(at, key, 1, "billing", "", 10, 10, 0.001)
    return ObservedExchange(at, SessionLabels(name, label, client), replace(exchange, **more))  # type: ignore[arg-type]  # fields by name


METADATA, PRODUCE, FETCH, HEARTBEAT, LEAVE_GROUP, SASL_AUTHENTICATE, API_VERSIONS = 3, 0, 1, 12, 13, 36, 18


def found(
    tally: Tally, *sessions: SessionStatus, findings: FindingTracker | None = None, now: float = NOW
) -> list[LiveDiagnostic]:
    tally.tick(now, sessions)
    return (findings or FindingTracker()).tick(now, tally, [cluster()], sessions)


def asks(tally: Tally, count: int, seconds: float, **more: object) -> None:
    for number in range(count):
        tally.offer(passed(METADATA, NOW - seconds + number * seconds / count, rewritten=TOLD, **more))


def test_a_client_that_never_comes() -> None:
    tally = Tally(NOW)
    asks(tally, 5, 20)
    (finding,) = found(tally, session("bootstrap"), session("1"), session("3"))
    assert (finding.fault, finding.node, finding.client) == (Fault.CLIENT_BLOCKED, "2", "billing at 10.1.1.1")
    assert "asked for metadata 5 times in 20 s and has never connected to broker 2 (localhost:19094)" in finding.text


def test_the_address_is_the_one_that_the_client_was_told() -> None:
    tally = Tally(NOW)
    for number in range(5):
        tally.offer(passed(METADATA, NOW - 20 + number, rewritten=(("kafka-2:9092", "10.8.0.1:19094"),)))
    (finding,) = found(tally, session("bootstrap"), session("1"))
    assert "any of broker 2 (10.8.0.1:19094), broker 3 (localhost:19095)" in finding.text


def test_a_client_that_was_told_no_node() -> None:
    tally = Tally(NOW)
    for number in range(5):
        tally.offer(passed(METADATA, NOW - 20 + number))
    assert found(tally, session("bootstrap")) == []


def test_a_version_that_is_negotiated_is_no_error() -> None:
    """Error 35 for ApiVersions: the client asks again in an older version."""
    tally = Tally(NOW)
    tally.offer(passed(API_VERSIONS, NOW, "1", error=35))
    assert tally.nodes["default", "1"].last_error is None
    tally.offer(passed(METADATA, NOW, "1", error=35))
    tally.offer(passed(API_VERSIONS, NOW, "2", error=129))
    assert [tally.nodes["default", label].last_error for label in "12"] == [
        LastError("Metadata", 35, NOW),
        LastError("ApiVersions", 129, NOW),
    ]


def test_several_nodes_are_named_together() -> None:
    tally = Tally(NOW)
    asks(tally, 5, 20)
    (finding,) = found(tally, session("bootstrap"), session("1"))
    assert finding.node is None
    assert "any of broker 2 (localhost:19094), broker 3 (localhost:19095)" in finding.text


@pytest.mark.parametrize(
    ("count", "seconds", "sessions"),
    [
        (2, 50, ["bootstrap"]),  # as each client at its start
        (3, 5, ["bootstrap"]),  # it may just be about to come
        (5, 20, ["bootstrap", "1", "2", "3"]),
        (5, 20, []),  # it has gone
    ],
)
def test_a_client_that_does_nothing_odd(count: int, seconds: float, sessions: list[str]) -> None:
    tally = Tally(NOW)
    asks(tally, count, seconds)
    assert found(tally, *map(session, sessions)) == []


def test_another_client_of_the_host_shows_that_nothing_blocks() -> None:
    tally = Tally(NOW)
    asks(tally, 5, 20)
    others = [session(label, "10.1.1.1:777", "other") for label in PORTS]
    assert found(tally, session("bootstrap"), *others) == []


def test_a_client_of_another_machine_shows_nothing() -> None:
    tally = Tally(NOW)
    asks(tally, 5, 20)
    others = [session(label, "10.9.9.9:777", "billing") for label in PORTS]
    assert found(tally, session("bootstrap"), *others)[0].fault is Fault.CLIENT_BLOCKED


def leaderless(error: int = 5, leader: int = -1) -> bytes:
    """Metadata v1 with one topic of one partition, number 3."""
    partition = pack(">hiiii", error, 3, leader, 0, 0)
    topic = pack(">hh", 0, 6) + b"orders" + pack(">?i", False, 1) + partition
    return pack(">ii", 0, 1) + pack(">i", 1) + topic


def test_no_leader() -> None:
    tally = Tally(NOW)
    asks(tally, 30, 3, metadata=leaderless())
    (finding,) = found(tally, session("bootstrap"))
    assert finding.fault is Fault.NO_LEADER
    assert (
        finding.text == "billing at 10.1.1.1 refreshes its metadata every 100 ms: it cannot find a leader for orders-3."
    )


def test_an_unknown_topic() -> None:
    topic = pack(">hh", 3, 6) + b"orderz" + pack(">?i", False, 0)
    tally = Tally(NOW)
    asks(tally, 30, 3, metadata=pack(">iii", 0, 1, 1) + topic)
    (finding,) = found(tally, session("bootstrap"))
    assert finding.fault is Fault.TOPIC_UNKNOWN
    assert "orderz" in finding.text


@pytest.mark.parametrize("body", [b"", b"\xff" * 60, leaderless()[:-3], pack(">ii", 2**31 - 1, 1)])
def test_metadata_that_cannot_be_read_say_nothing(body: bytes) -> None:
    tally = Tally(NOW)
    asks(tally, 30, 3, metadata=body)
    (finding,) = found(tally, session("bootstrap"))
    assert (finding.fault, finding.severity) == (Fault.ASKS_AGAIN, "warning")


def test_logins_that_fail_again_and_again() -> None:
    tally = Tally(NOW)
    for number in range(4):
        tally.offer(passed(SASL_AUTHENTICATE, NOW - 20 + 5 * number, client=f"10.1.1.1:{number}", error=58))
    (finding,) = found(tally)
    assert finding.fault is Fault.CREDENTIALS_REFUSED
    assert finding.text == "billing at 10.1.1.1 logs in and fails, 4 times in the last minute, every 5 s."


def test_logins_that_work_are_no_finding() -> None:
    tally = Tally(NOW)
    for number in range(9):
        tally.offer(passed(SASL_AUTHENTICATE, NOW - number, error=0))
    assert found(tally) == []


@pytest.mark.parametrize(("slow", "fast", "key", "says"), [
    (0.2, 0.01, PRODUCE, True), (0.2, 0.05, PRODUCE, False), (0.01, 0.0005, PRODUCE, False), (0.2, 0.01, FETCH, False),
])  # fmt: skip
def test_a_slow_node(slow: float, fast: float, key: int, says: bool) -> None:
    tally = Tally(NOW)
    for label in PORTS:
        for _ in range(20):
            tally.offer(passed(key, NOW, label, seconds=slow if label == "1" else fast))
    got = found(tally)
    assert [(one.fault, one.node) for one in got] == ([(Fault.SLOW_NODE, "1")] if says else [])
    if says:
        assert "answers Produce 20 times slower than its peers" in got[0].text or "times slower" in got[0].text


def test_one_node_alone_has_no_peers() -> None:
    tally = Tally(NOW)
    for _ in range(20):
        tally.offer(passed(PRODUCE, NOW, "1", seconds=3.0))
    assert found(tally) == []


def test_a_leak() -> None:
    many = [session("2", f"10.1.1.1:{number}") for number in range(400)]
    (finding,) = found(Tally(NOW), *many)
    assert (finding.fault, finding.text) == (Fault.CONNECTION_LEAK, "Node 2 has 400 sessions of client id billing.")
    assert found(Tally(NOW), *many[:99]) == []


def test_a_finding_stays_for_a_while_and_keeps_its_beginning() -> None:
    findings, tally = FindingTracker(), Tally(NOW)
    many = [session("2", f"10.1.1.1:{number}") for number in range(400)]
    assert found(tally, *many, findings=findings)
    tally.tick(NOW + 20, [])
    (finding,) = findings.tick(NOW + 20, tally, [cluster()], [])
    assert finding.since == NOW
    assert findings.tick(NOW + 31, tally, [cluster()], []) == []


def unreachable(
    *problems: str | None, of: FindingTracker | None = None, now: float = NOW, **more: Any
) -> list[LiveDiagnostic]:
    """What is found where the nodes, from 1 on, have these problems, each since 100 s and its number ago."""
    nodes = [
        replace(node(str(number)), problem=problem, lost_since=None if problem is None else NOW - 100 - number)
        for number, problem in enumerate(problems, 1)
    ]
    seen = replace(cluster(), nodes=tuple(nodes), **more)
    return (of or FindingTracker()).tick(now, Tally(NOW), [seen], [])


def test_a_dead_broker_is_a_finding_since_it_died() -> None:
    findings = FindingTracker()
    (finding,) = unreachable(None, "10.0.0.1:9092: connection refused", None, of=findings)
    assert (finding.since, finding.fault, finding.severity, finding.node) == (
        NOW - 102, Fault.NODE_UNREACHABLE, "error", "2",
    )  # fmt: skip
    assert finding.text == "Broker 2 (kafka-2:9092) cannot be reached: 10.0.0.1:9092: connection refused."
    assert unreachable(None, None, None, of=findings, now=NOW + 1) == []  # at once


def test_a_dead_broker_comes_before_what_it_causes() -> None:
    """Also if that was found earlier, and if there is more of it than is shown."""
    findings = FindingTracker()
    for number in range(100):
        text = live_diagnostic(Fault.CLIENT_NOT_KAFKA, "c", "x", client=str(number), since=NOW - 1000)
        findings.note(text, NOW)
    first, *others = unreachable(None, "refused", of=findings)
    assert first.fault == Fault.NODE_UNREACHABLE
    assert {other.fault for other in others} == {Fault.CLIENT_NOT_KAFKA}


def test_each_dead_broker_is_one_but_not_a_hundred() -> None:
    assert [(one.since, one.node) for one in unreachable("a", "b", "c")] == [
        (NOW - 101, "1"), (NOW - 102, "2"), (NOW - 103, "3"),
    ]  # fmt: skip
    (finding,) = unreachable(*["refused"] * 100, None)
    assert (finding.since, finding.node) == (NOW - 200, None)
    assert finding.text == (
        "100 of 101 nodes cannot be reached: broker 1, broker 2, broker 3 and 97 more. broker 1: refused."
    )


@pytest.mark.parametrize(("problem", "why"), [(None, ""), ("10.0.0.1:9092: refused", ": 10.0.0.1:9092: refused")])
def test_a_node_that_the_cluster_does_not_name_any_more(problem: str | None, why: str) -> None:
    """A cluster forgets a dead broker within seconds."""
    findings = FindingTracker()
    absent = replace(node("1"), present=False, problem=problem, lost_since=NOW - 9)
    seen = replace(cluster(), nodes=(absent, node("2")))
    (finding,) = findings.tick(NOW, Tally(NOW), [seen], [])
    assert (finding.since, finding.fault, finding.node) == (NOW - 9, Fault.BROKER_MISSING, "1")
    assert finding.text == f"Broker 1 (kafka-1:9092) is not in the cluster's metadata any more{why}."
    assert findings.tick(NOW + 1, Tally(NOW), [cluster()], []) == []
    many = tuple(replace(node(str(number)), present=False) for number in range(1, 6))
    (finding,) = findings.tick(NOW, Tally(NOW), [replace(seen, nodes=many)], [])
    assert finding.text == (
        "5 of 5 nodes are not in the cluster's metadata any more: broker 1, broker 2, broker 3 and 2 more."
    )


def test_bootstrap_servers_that_do_not_answer_are_one() -> None:
    lost = {"answered": False, "problem": "no bootstrap server answers: a:1: refused", "problem_since": NOW - 7}
    (finding,) = unreachable("refused", **lost)
    assert (finding.since, finding.text, finding.node) == (NOW - 7, "No bootstrap server answers: a:1: refused.", None)
    assert unreachable(None, **{**lost, "answered": True}) == []


def test_each_cluster_has_its_own() -> None:
    tally = Tally(NOW)
    many = [session("2", f"10.1.1.1:{number}", name="other") for number in range(400)]
    assert found(tally, *many) == []


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallying, "_MAX_KEPT", {"api": 4, "client": 4, "group": 4})
    tally = Tally(NOW)
    for number in range(500):
        one = passed(number % 60, NOW, "1", f"10.1.{number}.1:1", client_id=f"c{number}", group=f"g{number}")
        tally.offer(one)
    assert (len(tally.apis), len(tally.clients), len(tally.groups)) == (4, 4, 4)
    tally.tick(NOW + 1, [])
    assert tally.nodes["default", "1"].requests == pytest.approx(500)


def test_who_has_gone_is_forgotten() -> None:
    tally = Tally(NOW)
    tally.offer(passed(HEARTBEAT, NOW, "1", group="g"))
    tally.tick(NOW + 1, [session("1")])
    assert list(tally.clients) == [ClientKey("default", "10.1.1.1", "billing", "")]
    assert tally.groups["default", "g"].members == {"10.1.1.1:5000": "billing"}
    tally.tick(NOW + 2, [])
    assert tally.groups["default", "g"].members == {}
    tally.tick(NOW + 100, [])
    assert (tally.clients, tally.groups) == ({}, {})


def test_a_member_that_leaves() -> None:
    tally = Tally(NOW)
    tally.offer(passed(HEARTBEAT, NOW, "1", group="g"))
    tally.offer(passed(LEAVE_GROUP, NOW, "1", group="g"))
    assert tally.groups["default", "g"].members == {}
