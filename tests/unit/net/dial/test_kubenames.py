from __future__ import annotations

from typing import Any

import pytest

from kproxy.net.dial.kubenames import (
    NameMeaning,
    PodPort,
    TargetNotFound,
    choose_pod_port,
    find_pod_by_hostname,
    find_running_pod,
    parse_host,
)


@pytest.mark.parametrize(
    ("host", "meant"),
    [
        ("boot", [NameMeaning("ns", service="boot"), NameMeaning("ns", pod="boot")]),
        ("boot.other", [NameMeaning("other", service="boot"), NameMeaning("ns", pod="boot", service="other")]),
        ("boot.other.svc", [NameMeaning("other", service="boot")]),
        ("Boot.other.svc.cluster.local.", [NameMeaning("other", service="boot")]),
        ("k-0.brokers.other", [NameMeaning("other", pod="k-0", service="brokers")]),
        ("k-0.brokers.other.svc", [NameMeaning("other", pod="k-0", service="brokers")]),
        ("k-0.brokers.other.svc.example.com", [NameMeaning("other", pod="k-0", service="brokers")]),
        ("svc.svc.svc", [NameMeaning("svc", service="svc")]),
        ("10.1.2.3", [NameMeaning("ns", ip="10.1.2.3")]),
        ("fd00::1", [NameMeaning("ns", ip="fd00::1")]),
        ("broker.example.com.net", []),
        ("a/../b", []),
        ("a..b", []),
        ("", []),
    ],
)
def test_what_names_mean(host: str, meant: list[NameMeaning]) -> None:
    assert parse_host(host, "ns") == meant


MEANT = NameMeaning("ns", service="boot")


def _service(**more: Any) -> dict[str, Any]:
    return {"spec": {"clusterIP": "10.0.0.1", "ports": [{"name": "plain", "port": 9092}], **more}}


def _slices(*endpoints: dict[str, Any]) -> dict[str, Any]:
    return {
        "items": [
            {"ports": [{"name": "tls", "port": 1}, {"name": "plain", "port": 19092}], "endpoints": list(endpoints)}
        ]
    }


def _pod(name: str, ready: bool | None = True) -> dict[str, Any]:
    return {"conditions": {"ready": ready}, "targetRef": {"kind": "Pod", "name": name}, "hostname": f"h-{name}"}


def test_a_service_leads_to_a_ready_pod_and_its_target_port() -> None:
    slices = _slices(_pod("a", ready=False), _pod("b"))
    assert choose_pod_port(MEANT, 9092, _service(), slices) == PodPort("ns", "b", 19092)


def test_an_endpoint_that_does_not_say_is_ready() -> None:
    assert choose_pod_port(MEANT, 9092, _service(), _slices(_pod("a", ready=None))).pod == "a"


def test_a_headless_service_leads_to_ports_that_it_does_not_name() -> None:
    assert choose_pod_port(MEANT, 7, _service(clusterIP="None"), _slices(_pod("a"))) == PodPort("ns", "a", 7)


@pytest.mark.parametrize(
    ("port", "service", "slices", "reason", "text"),
    [
        (1234, _service(), _slices(_pod("a")), "refused", "has no port 1234 (it has 9092)"),
        (9092, _service(), _slices(_pod("a", ready=False)), "unreachable", "no ready pod"),
        (9092, _service(), {"items": []}, "unreachable", "no ready pod"),
        (9092, _service(type="ExternalName"), _slices(), "resolve", "ExternalName"),
    ],
)
def test_services_that_lead_nowhere(port: int, service: Any, slices: Any, reason: str, text: str) -> None:
    with pytest.raises(TargetNotFound, match=text.replace("(", r"\(").replace(")", r"\)")) as caught:
        choose_pod_port(MEANT, port, service, slices)
    assert caught.value.reason == reason


@pytest.mark.parametrize("nonsense", [None, 7, "x", [], [1], {"items": 3}, {"items": [3, {"endpoints": [4, {}]}]}])
def test_nonsense_names_no_pod(nonsense: Any) -> None:
    with pytest.raises(TargetNotFound):
        choose_pod_port(MEANT, 9092, nonsense, nonsense)
    assert find_pod_by_hostname("h-a", nonsense) is None
    assert find_running_pod(nonsense) is None


def test_a_pod_is_found_by_its_hostname_and_by_its_ip() -> None:
    assert find_pod_by_hostname("h-b", _slices(_pod("a"), _pod("b"))) == "b"
    ended, runs = (
        {"metadata": {"name": name}, "status": {"phase": phase}}
        for name, phase in (("a", "Succeeded"), ("b", "Running"))
    )
    assert find_running_pod({"items": [ended, runs]}) == "b"
