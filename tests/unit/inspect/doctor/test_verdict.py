"""What the report says yes to."""

from __future__ import annotations

import json
from typing import Any

import click

from kproxy.config.commandline import CommandLine
from kproxy.inspect.doctor import asjson, report
from kproxy.inspect.doctor.command_trials import TrialOutcome, TrialResult
from kproxy.inspect.doctor.diagnosis import diagnose
from kproxy.inspect.doctor.evidence import EndedRoute, Examination, NeighbourKproxy, OtherListener, RefusingKproxy
from kproxy.inspect.doctor.report import DoctorReport
from tests.unit.inspect.doctor.examined import bad, examination, good, identity, key


def of(found: Examination, outcome: TrialOutcome | None = None) -> tuple[str, dict[str, Any]]:
    """The text in one line, and the JSON."""
    made = DoctorReport("c", found, tuple(diagnose(found)), outcome, ())
    return " ".join(click.unstyle(" ".join(report.text(made, fancy=False))).split()), json.loads(asjson.as_json([made]))


def test_a_broker_that_does_not_tell_which_it_is_was_not_checked() -> None:
    told, hidden = good("a.example:9092", 1, 1), good("b.example:9092", 2, 2, identity=identity(None))
    said, value = of(examination(told, hidden))
    assert "Nothing is wrong" in said
    assert "whether the right broker of the cluster answers at b.example:9092: this user may not see that" in said
    assert len(value["not_checked"]) == 1
    assert of(examination(told))[1]["not_checked"] == []


def test_a_question_with_a_hop_gets_no_answer_about_a_client_without_it() -> None:
    hop: dict[str, Any] = {"via": ("ssh://bastion",), "kproxy_options": ("--via ssh://bastion",)}
    node = good("a.example:9092", 1, 1)
    said, _ = of(examination(node, **hop, direct_contacts=(good("kafka.example:9092", 1), node)))
    assert "Tried without that, too: the same brokers answer this machine" in said
    assert "needs no kproxy" not in said
    _, value = of(examination(bootstrap=(bad("kafka.example:9092", "refused"),), **hop))
    assert any("a client without --via ssh://bastion: nothing is known of it" in line for line in value["not_checked"])


def test_through_another_kproxy() -> None:
    neighbour = NeighbourKproxy("127.0.0.1:19091", ("kafka.example:9092",), ("ssh://bastion",))
    said, value = of(examination(good("127.0.0.1:19093", 1, 1), neighbour=neighbour))
    assert "needs no kproxy" not in said
    assert "through the kproxy that runs here already" in said
    assert "kproxy doctor kafka.example:9092 --via=ssh://bastion" in said
    assert value["kproxy"] == {
        "admin": "127.0.0.1:19091", "bootstrap_servers": ["kafka.example:9092"], "via": ["ssh://bastion"],
    }  # fmt: skip


def test_where_only_a_login_would_tell_whether_the_hop_is_needed() -> None:
    untold = bad("kafka.example:9092", "sasl", wants_login=True)
    found = examination(
        good("a.example:9092", 1, 1),
        via=("ssh://bastion",),
        kproxy_options=("--via ssh://bastion",),
        login="PLAIN",
        direct_contacts=(untold,),
    )
    tried = TrialResult(CommandLine({"bootstrap_servers": ("kafka.example:9092",), "via": ("ssh://bastion",)}), 1, 1)
    said, value = of(found, TrialOutcome(tried, 1))
    assert value["verdict"] == "healthy"
    assert "whether the same brokers answer there, only a login would tell" in said
    assert "needs no kproxy" not in said
    assert "kproxy run -b kafka.example:9092 --via ssh://bastion" in said


def test_a_line_reaching_some_brokers_asks_for_other_addresses() -> None:
    """Nothing is said to work."""
    found = examination(good("a.example:9092", 1, 1), bad("b.example:9092", "refused", 2))
    tried = TrialResult(CommandLine({"bootstrap_servers": ("a",)}), 1, 2, None, "b.example:9092: refused", (key(2),))
    said, value = of(found, TrialOutcome(tried, 1))
    assert "a client reached 1 of 2 brokers. b.example:9092: refused" in said
    assert "Not tried: other addresses for the others, which only you know: --map 'node:2=HOST:PORT'" in said
    assert not value["works_now"]["works"]
    assert "Works in part" in said
    assert "Works now" not in said
    assert (
        "Not tried: other addresses" not in of(found, TrialOutcome(TrialResult(tried.line, 1, 2, None, "TLS: …"), 1))[0]
    )


def test_one_way_is_enough_where_another_listener_works_without_kproxy() -> None:
    works = OtherListener(good("kafka.example:29092", 1), (good("kafka.example:29092", 1, 1),))
    settings = {
        "listeners": "IN://:9092,OUT://:29092",
        "advertised.listeners": "IN://kafka1:9092,OUT://kafka.example:29092",
    }
    found = examination(bad("kafka1:9092", "resolve", 1), settings=settings, other_listeners=(works,))
    line = CommandLine({"bootstrap_servers": ("a.example:9092",)})
    direct = "at the address of this listener): bootstrap.servers=kafka.example:29092"
    works_too = TrialOutcome(TrialResult(line, 1, 1), 1)
    said, value = of(found, works_too)
    assert f"Works now without kproxy (tried: each broker answers {direct} Verdict" in said
    assert value["works_now"]["works"]  # a program may choose either
    for outcome in (None, TrialOutcome(None, 1), TrialOutcome(TrialResult(line, 0, 1, None, "refused", (key(1),)), 1)):
        said, _ = of(found, outcome)
        assert direct in said
        assert "kproxy run" not in said.partition("Works now")[2]


def test_a_kproxy_that_refuses_a_cluster_that_was_created_again() -> None:
    """Whether doctor reaches the brokers, or asks at the kproxy's own address and is disconnected."""
    kproxy = RefusingKproxy("127.0.0.1:19091", "another Kafka cluster (id b) answers, … kproxy reload --accept-cluster")
    for contact in (good("127.0.0.1:9092", 1, 1), bad("127.0.0.1:19092", "closed")):
        said, value = of(examination(contact, refusing_kproxy=kproxy))
        text = "The kproxy on this machine (--admin 127.0.0.1:19091) disconnects clients: another Kafka cluster (id b)"
        assert text in said
        assert value["findings"][0]["fault"] == "wrong-cluster"
        assert "Nothing is wrong" not in said


def test_a_forward_that_a_running_kproxy_has_lost() -> None:
    """Since when, and to whom it belongs now. No finding if doctor itself reaches the node by now."""
    why = "localhost:9094 answers, but it is broker 1 of this cluster, not broker 3"
    route = EndedRoute("127.0.0.1:19091", key(3), "localhost:9094", 1_796_000_000.9, why)
    for contact, expected in ((bad("kafka-3.example:9092", "resolve", 3), 1), (good("kafka-3.example:9092", 3, 3), 0)):
        text, value = of(examination(contact, ended_routes=(route,)))
        findings = [finding for finding in value["findings"] if finding["fault"] == "forward-ended"]
        assert len(findings) == expected
        if expected:
            assert "No longer leads to broker 3 since 2026-11-30" in text
            assert f"says the kproxy at 127.0.0.1:19091: {why}." in " ".join(text.split())
            assert "--forward-command" in text
