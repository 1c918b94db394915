"""Answers of kproxies, and of servers that are none."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.base.errors import AdminError
from kproxy.migrate.switch.kproxy_replies import (
    ClusterReply,
    CommandRefused,
    ConnectedClient,
    KproxyReply,
    read_command_reply,
)
from kproxy.migrate.switch.report import describe_returned_clients
from kproxy.proxy.switching.asjson import state_as_json
from kproxy.proxy.switching.participant import ParticipantState

CLUSTER: dict[str, Any] = {
    "name": "default", **state_as_json(ParticipantState("blue")), "upstreams": {"blue": {"cluster_id": "A"}, "green": {"cluster_id": None}},
    "unanswered": 2, "held": 3, "doubts": [{"client": "app", "address": "10.0.0.1", "seconds_ago": 4.5}],
    "clients": [{"client": "x", "address": "10.0.0.2", "software": "java 4", "sees": "waits"}, {"client": None, "address": ""}],
}  # fmt: skip
ANSWER: dict[str, Any] = {"kproxy": {"version": "1", "time": 5, "state_dir": True}, "clusters": [CLUSTER]}


def test_it_is_read() -> None:
    cluster = KproxyReply.read(ANSWER, "kp").clusters["default"]
    assert cluster.upstreams == {"blue": "A", "green": ""}
    assert (cluster.unanswered, cluster.held, cluster.uncertain_writers) == (2, 3, ("app at 10.0.0.1",))
    assert cluster.clients == (ConnectedClient("x", "10.0.0.2", "java 4", ("waits",)), ConnectedClient("", ""))
    assert cluster.state == ParticipantState("blue")


@pytest.mark.parametrize(
    "spoiled",
    [
        None, [], "x", {}, {**ANSWER, "kproxy": []}, {**ANSWER, "clusters": {}}, {**ANSWER, "clusters": [3]},
        {**ANSWER, "kproxy": {"version": "1", "time": "now", "state_dir": True}},
        {**ANSWER, "kproxy": {"version": "1", "time": float("nan"), "state_dir": True}},
        {**ANSWER, "kproxy": {"version": "1", "time": 5, "state_dir": "yes"}},
        {**ANSWER, "clusters": [{**CLUSTER, "phase": "dancing"}]},
        {**ANSWER, "clusters": [{**CLUSTER, "phase": "held"}]},
        {**ANSWER, "clusters": [{**CLUSTER, "upstreams": ["blue"]}]},
        {**ANSWER, "clusters": [{**CLUSTER, "unanswered": True}]},
        {**ANSWER, "clusters": [{**CLUSTER, "doubts": [7]}]},
        {**ANSWER, "clusters": [{**CLUSTER, "clients": [{"client": "a", "sees": [1]}]}]},
    ],
    ids=range(16),
)  # fmt: skip
def test_it_is_nonsense(spoiled: object) -> None:
    with pytest.raises(AdminError, match="kp returned no valid reply at /switch"):
        KproxyReply.read(spoiled, "kp")


def test_what_others_say_is_shown_escaped() -> None:
    spoiled = {**CLUSTER, "doubts": ["\x1b[31m" + "x" * 5000]}
    doubt = ClusterReply.read(spoiled, "kp").uncertain_writers[0]
    assert "\x1b" not in doubt
    assert len(doubt) < 400


def test_commands() -> None:
    assert read_command_reply({"problem": "", "cluster": CLUSTER}, "kp").name == "default"
    with pytest.raises(CommandRefused, match="kp refuses: it is not held yet") as caught:
        read_command_reply({"problem": "it is not held yet", "cluster": CLUSTER}, "kp")
    assert caught.value.cluster is not None
    with pytest.raises(CommandRefused, match="there is no cluster x"):
        read_command_reply({"problem": "there is no cluster x", "cluster": None}, "kp")


@pytest.mark.parametrize(
    "value", [{"problem": 5, "cluster": None}, {"problem": "", "cluster": None}, CLUSTER, [], None]
)
def test_answers_to_commands_that_are_none(value: object) -> None:
    with pytest.raises(AdminError, match="no valid reply"):
        read_command_reply(value, "kp")


def test_which_clients_are_back() -> None:
    before = ClusterReply.read(CLUSTER, "kp")
    assert describe_returned_clients([before], [before]) == (
        True,
        ["2 of 2 clients that were connected before have reconnected"],
    )
    now = ClusterReply.read({**CLUSTER, "clients": [], "waiting": [{"client": "slow", "address": "10.0.0.3"}]}, "kp")
    fine, said = describe_returned_clients([before], [now])
    assert not fine
    assert said == [
        "0 of 2 clients that were connected before have reconnected",
        "not reconnected yet: (no client id) at , x at 10.0.0.2",
        "get no records until they fetch their positions again: slow at 10.0.0.3",
    ]
