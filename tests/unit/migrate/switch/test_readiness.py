"""What is wrong with kproxies, before they are switched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from kproxy.base.diagnostic import ERROR, NOTE, WARNING
from kproxy.base.errors import AdminError
from kproxy.migrate.switch.kproxy_replies import ClusterReply, KproxyReply
from kproxy.migrate.switch.readiness import ExpectedState, TimedReply, check_readiness
from kproxy.proxy.switching.participant import ParticipantState, Phase

WANTED = ExpectedState("default", "green", "A", "B", "1.0")
CLUSTER = ClusterReply("default", ParticipantState("blue"), {"blue": "A", "green": "B"})
ANSWER = KproxyReply("1.0", 100.0, True, {"default": CLUSTER})
HELD = ParticipantState("blue", Phase.HELD, "x9", "000001-a", "blue", "green", 1.0, 9.0)


def findings(answers: Mapping[str, KproxyReply | AdminError]) -> list[tuple[str, str, str]]:
    heard = {name: TimedReply(answer, 99.9, 100.1) for name, answer in answers.items()}
    return [(one.severity, one.subject, one.text) for one in check_readiness(heard, WANTED)]


def with_cluster(**more: object) -> KproxyReply:
    return replace(ANSWER, clusters={"default": replace(CLUSTER, **more)})  # type: ignore[arg-type]


def test_those_that_share_ports_are_all_there() -> None:
    """A kproxy that goes on leading clients to the former upstream would do so with the clients of the others too."""
    one, other = with_cluster(instance="1", port_sharers=("2",)), with_cluster(instance="2", port_sharers=("1",))
    assert findings({"a": one, "b": other}) == [(NOTE, "kproxies", "2 replied")]
    (stop, _) = findings({"a": one})
    assert stop[:2] == (ERROR, "kproxies")
    assert stop[2].startswith("1 more share these ports (--reuse-port)")
    assert stop[2].endswith("list the admin address of each in switch.kproxies")


def test_all_are_fine() -> None:
    assert findings({"a": ANSWER, "b": ANSWER}) == [(NOTE, "kproxies", "2 replied")]


@pytest.mark.parametrize(
    ("answer", "severity", "words"),
    [
        (AdminError("no kproxy answers"), ERROR, "cannot be queried: no kproxy answers"),
        (replace(ANSWER, version="2.0"), WARNING, "is version 2.0, and this command 1.0"),
        (replace(ANSWER, time=103.0), ERROR, "its clock differs from this machine's by at least 3 s"),
        (replace(ANSWER, time=90.0), ERROR, "its clock differs from this machine's by at least 10 s"),
        (replace(ANSWER, state_dir=False), ERROR, "has no --state-dir"),
        (replace(ANSWER, clusters={"other": CLUSTER}), ERROR, "has no cluster default that can be switched (it has other)"),
        (with_cluster(state=HELD), ERROR, "is in switch x9 (held)"),
        (with_cluster(upstreams={"blue": "A", "red": "B"}), ERROR, "has no upstream green (it has blue, red)"),
        (with_cluster(state=ParticipantState("green")), ERROR, "already routes to green"),
        (with_cluster(upstreams={"blue": "A", "green": ""}), ERROR, "cannot connect to its upstream green"),
        (with_cluster(upstreams={"blue": "A", "green": "C"}), ERROR, "its other upstream green is cluster C, and the file"),
        (with_cluster(upstreams={"blue": "X", "green": "B"}), ERROR, "its active upstream blue is cluster X"),
        (with_cluster(uncertain_writers=("app at 10.0.0.1",)), WARNING, "clients lost the response to a write (app at 10.0.0.1)"),
    ],
    ids=[
        "silent", "version", "clock ahead", "clock behind", "no state dir", "no cluster", "in a switch", "no upstream",
        "there already", "not reached", "another target", "another source", "doubts",
    ],
)  # fmt: skip
def test_one_is_not(answer: KproxyReply | AdminError, severity: str, words: str) -> None:
    found = findings({"a": answer})
    assert found[0][:2] == (severity, "kproxy a")
    assert words in found[0][2]
    assert any(one[0] == ERROR for one in found) is (severity == ERROR)


def test_many_have_the_same_problem() -> None:
    found = findings({name: replace(ANSWER, state_dir=False) for name in "abcde"})
    assert found[0][1] == "kproxy a, b, c and 2 more"


def test_they_do_not_agree() -> None:
    texts = [text for _, _, text in findings({"a": ANSWER, "b": replace(ANSWER, version="0.9")})]
    assert any("different versions: 1.0 (1), 0.9 (1)" in text for text in texts)
    texts = [text for _, _, text in findings({"a": ANSWER, "b": with_cluster(state=ParticipantState("green"))})]
    assert any("route to different upstreams now: blue, green" in text for text in texts)
