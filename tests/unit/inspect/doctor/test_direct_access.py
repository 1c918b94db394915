"""Whether a client reaches the cluster without what only kproxy can use."""

from __future__ import annotations

from typing import Any

from kproxy.base.faults import Fault
from kproxy.inspect.doctor import direct_access
from kproxy.inspect.doctor.diagnosis import diagnose
from kproxy.inspect.doctor.evidence import Contact, Examination
from tests.unit.inspect.doctor.examined import bad, examination, good, identity

SSH = "ssh://bastion"


def behind(*direct: Contact, **more: Any) -> Examination:
    nodes = [good(f"kafka-{node}.example:9092", node, node) for node in (1, 2, 3)]
    return examination(*nodes, via=(SSH,), kproxy_options=(f"--via {SSH}",), direct_contacts=direct, **more)


def test_without_the_hop_nothing_is_reached() -> None:
    found = behind(bad("kafka.example:9092", "resolve"))
    (finding,) = diagnose(found)
    assert (finding.fault, finding.symptom) == (Fault.KPROXY_NEEDED, Fault.NAME_NOT_RESOLVED)
    assert f"kproxy reaches the cluster with --via {SSH}. A client connects without that" in finding.text
    assert "kafka.example:9092: this machine cannot resolve the name" in finding.text
    assert direct_access.is_reached(found) is False


def test_one_bootstrap_server_is_enough_but_all_brokers_needed() -> None:
    servers = (bad("a.example:9092", "refused"), good("b.example:9092", 1))
    nodes = [good(f"kafka-{node}.example:9092", node, node) for node in (1, 2, 3)]
    assert direct_access.is_reached(behind(*servers, *nodes)) is True
    lost = bad("kafka-3.example:9092", "timeout", 3)
    (finding,) = diagnose(behind(*servers, *nodes[:2], lost))
    assert (finding.fault, finding.subjects) == (Fault.KPROXY_NEEDED, ("kafka-3.example:9092",))


def test_another_cluster_at_the_address_is_not_the_hops_cluster() -> None:
    """localhost:9092 is another machine's behind a hop."""
    (finding,) = diagnose(behind(good("localhost:9092", 1, identity=identity(1, "other"))))
    assert (finding.fault, finding.symptom) == (Fault.KPROXY_NEEDED, Fault.WRONG_CLUSTER)
    assert "localhost:9092: another Kafka cluster answers there, with the id other" in finding.text


def test_brokers_that_need_a_login_are_not_judged_without_hop() -> None:
    found = behind(bad("kafka.example:9092", "sasl", wants_login=True), login="PLAIN")
    assert diagnose(found) == []
    assert direct_access.is_reached(found) is None


def test_what_kproxy_does_not_reach_either_is_to_be_mended_first() -> None:
    found = examination(
        bad("kafka-1.example:9092", "refused", 1), via=(SSH,), kproxy_options=(f"--via {SSH}",),
        direct_contacts=(bad("kafka.example:9092", "resolve"),),
    )  # fmt: skip
    assert [one.fault for one in diagnose(found)] == [Fault.PORT_CLOSED]


def test_maps_are_no_clients_either() -> None:
    nodes = [good("gate.example:19001", 1, 1)]
    direct = (good("localhost:9092", 1), bad("kafka-1.example:9092", "resolve", 1))
    (finding,) = diagnose(examination(*nodes, mapped=True, kproxy_options=("--map",), direct_contacts=direct))
    assert (finding.fault, finding.symptom) == (Fault.KPROXY_NEEDED, Fault.NAME_NOT_RESOLVED)
    assert "kproxy reaches the cluster with --map." in finding.text
