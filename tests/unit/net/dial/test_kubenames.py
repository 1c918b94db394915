from __future__ import annotations

from typing import Any

import pytest

from kproxy.net.dial.kubenames import Meant, NotThere, Place, meanings, place_of_service, pod_with_hostname, pod_with_ip


@pytest.mark.parametrize(
    ("host", "meant"),
    [
        ("boot", [Meant("ns", service="boot"), Meant("ns", pod="boot")]),
        ("boot.other", [Meant("other", service="boot"), Meant("ns", pod="boot", service="other")]),
        ("boot.other.svc", [Meant("other", service="boot")]),
        ("Boot.other.svc.cluster.local.", [Meant("other", service="boot")]),
        ("k-0.brokers.other", [Meant("other", pod="k-0", service="brokers")]),
        ("k-0.brokers.other.svc", [Meant("other", pod="k-0", service="brokers")]),
        ("k-0.brokers.other.svc.example.com", [Meant("other", pod="k-0", service="brokers")]),
        ("svc.svc.svc", [Meant("svc", service="svc")]),
        ("10.1.2.3", [Meant("ns", ip="10.1.2.3")]),
        ("fd00::1", [Meant("ns", ip="fd00::1")]),
        ("broker.example.com.net", []),
        ("a/../b", []),
        ("a..b", []),
        ("", []),
    ],
)
def test_what_names_mean(host: str, meant: list[Meant]) -> None:
    assert meanings(host, "ns") == meant


MEANT = Meant("ns", service="boot")


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
    assert place_of_service(MEANT, 9092, _service(), slices) == Place("ns", "b", 19092)


def test_an_endpoint_that_does_not_say_is_ready() -> None:
    assert place_of_service(MEANT, 9092, _service(), _slices(_pod("a", ready=None))).pod == "a"


def test_a_headless_service_leads_to_ports_that_it_does_not_name() -> None:
    assert place_of_service(MEANT, 7, _service(clusterIP="None"), _slices(_pod("a"))) == Place("ns", "a", 7)


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
    with pytest.raises(NotThere, match=text.replace("(", r"\(").replace(")", r"\)")) as caught:
        place_of_service(MEANT, port, service, slices)
    assert caught.value.reason == reason


@pytest.mark.parametrize("nonsense", [None, 7, "x", [], [1], {"items": 3}, {"items": [3, {"endpoints": [4, {}]}]}])
def test_nonsense_names_no_pod(nonsense: Any) -> None:
    with pytest.raises(NotThere):
        place_of_service(MEANT, 9092, nonsense, nonsense)
    assert pod_with_hostname("h-a", nonsense) is None
    assert pod_with_ip(nonsense) is None


def test_a_pod_is_found_by_its_hostname_and_by_its_ip() -> None:
    assert pod_with_hostname("h-b", _slices(_pod("a"), _pod("b"))) == "b"
    ended, runs = (
        {"metadata": {"name": name}, "status": {"phase": phase}}
        for name, phase in (("a", "Succeeded"), ("b", "Running"))
    )
    assert pod_with_ip({"items": [ended, runs]}) == "b"
