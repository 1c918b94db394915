"""Who still uses which side after a switch, and what may be said of switching the source off."""

from __future__ import annotations

import pytest

from kproxy.base.diagnostic import ERROR, NOTE, WARNING, Diagnostic
from kproxy.migrate.journal.switch_journal import SWITCHING, SwitchEntry
from kproxy.migrate.switch.kproxy_replies import ClusterReply, ConnectedClient
from kproxy.migrate.switch.source_use import (
    UNREACHED,
    ClientUse,
    SourceUse,
    check_missing,
    check_waiting,
    describe_safety,
    describe_uses,
    uses_of,
)
from kproxy.migrate.usage.observed import ObservedUsage
from kproxy.migrate.usage.replies import RecordedClient
from kproxy.proxy.switching.participant import ParticipantState

WRITER = ConnectedClient("orders", "10.0.0.9", "librdkafka 2.11.0", user="alice", writes=True)
READER = ConnectedClient("reports", "10.0.0.7", reads=True)
LAST = SwitchEntry("x1", SWITCHING, "default", "blue", "green", ("kp-1",), ended=True, at=1_000_000_000_000)
NOW = 1_000_000_000 + 3 * 86400


def test_clients_by_side_user_and_kproxy() -> None:
    replies = {
        name: [
            ClusterReply("default", ParticipantState("green"), clients=(WRITER,)),
            ClusterReply("default/late", ParticipantState("blue"), clients=(READER,) if name == "kp-1" else ()),
        ]
        for name in ("kp-1", "kp-2")
    }
    uses = [use for name, units in replies.items() for use in uses_of(name, units)]
    assert list(describe_uses(uses, ("blue", "green"))) == [
        "on blue: 1 client connected now",
        "  client reports at 10.0.0.7: reads; through kp-1",
        "on green: 1 client connected now",
        "  user alice, client orders (librdkafka 2.11.0) at 10.0.0.9: writes; through kp-1, kp-2",
    ]
    assert list(describe_uses([], ("blue",))) == ["on blue: no client connected now"]


def test_many_clients_are_cut() -> None:
    uses = [ClientUse("kp", "green", ConnectedClient(f"c{number}", "h")) for number in range(70)]
    lines = list(describe_uses(uses, ("green",)))
    assert len(lines) == 52
    assert lines[-1] == "  and 20 more"


def test_a_client_that_was_observed_and_is_gone() -> None:
    def recorded(user: str, name: str) -> RecordedClient:
        return RecordedClient("", user, "h", name, "java", 1.0, 2.0)

    usage = ObservedUsage(1.0, 2.0, (recorded("alice", "orders"), recorded("alice", "weekly"), recorded("", "")))
    uses = [ClientUse("kp", "green", WRITER)]
    findings = list(check_missing(uses, usage))
    assert [finding.subject for finding in findings] == ["client (no client id)", "client weekly of user alice"]
    assert {finding.severity for finding in findings} == {NOTE}
    assert list(check_missing(uses, None)) == []


def test_a_client_whose_login_passes_to_the_broker_is_the_one_that_was_observed() -> None:
    usage = ObservedUsage(1.0, 2.0, (RecordedClient("", "", "h", "orders", "java", 1.0, 2.0, broker_user="alice"),))
    alice, bob = (ConnectedClient("orders", "h", broker_user=user) for user in ("alice", "bob"))
    assert list(check_missing([ClientUse("kp", "green", alice)], usage)) == []
    (missing,) = check_missing([ClientUse("kp", "green", bob)], usage)
    assert missing.subject == "client orders of user alice"
    assert "  user bob, client orders at h" in "\n".join(describe_uses([ClientUse("kp", "green", bob)], ("green",)))


def test_a_consumer_that_waits_is_named() -> None:
    unit = ClusterReply("default", ParticipantState("green"), waiting_consumers=("reports at 10.0.0.7",))
    (finding,) = check_waiting("kp-1", [unit])
    assert (finding.severity, finding.subject) == (WARNING, "consumer reports at 10.0.0.7")


def test_it_is_safe_only_by_what_was_tried() -> None:
    safe, not_seen = describe_safety(LAST, SourceUse(50, ()), 1, [], NOW)
    assert safe == (
        "blue can be switched off by what was tried: since the switch, which ended 2001-09-09 01:46:40 UTC (3 days ago),"
        " nothing was written there (in 50 partitions of the file's topics); no group of the file has members there;"
        " 1 kproxy replied, and routes all clients to green"
    )
    assert "once a week" in not_seen
    allowed = SourceUse(50, (Diagnostic(NOTE, "topic a", "is still written"),))
    assert "only to topics that --allow-unseen names" in next(describe_safety(LAST, allowed, 2, [], NOW))


@pytest.mark.parametrize(
    ("use", "silent", "why"),
    [
        (UNREACHED, [], "source: it is not known whether clients still use it"),
        (SourceUse(1, (Diagnostic(ERROR, "topic a", "is still written"),)), [], "topic a: is still written"),
        (SourceUse(1, (Diagnostic(WARNING, "group g", "has members"),)), ["kp-2"], "group g: has members (and 1 more)"),
        (SourceUse(1, ()), ["kp-2"], "kp-2 did not reply"),
    ],
)
def test_every_doubt_forbids_it(use: SourceUse, silent: list[str], why: str) -> None:
    assert list(describe_safety(LAST, use, 1, silent, NOW)) == [f"do not switch off blue yet: {why}"]
