"""What is said of hops, and of names that they resolve."""

from __future__ import annotations

import pytest

from kproxy.base.faults import Fault
from kproxy.inspect.doctor.diagnosis import diagnose
from tests.unit.inspect.doctor.examined import bad, examination

SSH = "ssh://root@bastion:2222"


@pytest.mark.parametrize(
    ("via", "reason", "command"),
    [
        (SSH, "ssh", "ssh -v -o BatchMode=yes -p 2222 root@bastion true"),
        (SSH, "ssh-host-key", "ssh-keygen -F '[bastion]:2222'"),
        (SSH, "ssh-auth", "ssh-add -l"),
        ("socks5://proxy:1080", "proxy", "curl -v --socks5-hostname proxy:1080 telnet://kafka:9092"),
        ("http://u:***@proxy:3128", "proxy", "curl -v --proxytunnel --proxy proxy:3128 --proxy-user USER telnet://"),
        ("https://proxy:443", "proxy-auth", "curl -v --proxytunnel --proxy https://proxy:443 telnet://kafka:9092"),
        ("kubernetes://staging/kafka", "kubernetes-auth", "kubectl --context staging --namespace kafka get pods"),
        ("docker://shop_default", "docker", "docker network inspect shop_default"),
    ],
)
def test_a_hop_that_fails_is_tried_by_the_means_of_its_kind(via: str, reason: str, command: str) -> None:
    failed = bad("kafka:9092", reason, problem=f"--via {via}: no login", via_failed=True)
    found = examination(bootstrap=(failed,), via=("ssh://first", via))
    (finding,) = diagnose(found)
    assert (finding.fault, finding.subjects) == (Fault.HOP_FAILED, (via,))
    assert finding.fix[0].startswith(command)
    if not via.startswith("socks5"):
        assert "socks" not in " ".join((finding.text, *finding.fix)).lower()


@pytest.mark.parametrize("reason", ["ssh-forbidden", "proxy", "kubernetes-forbidden", "other"])
def test_an_address_that_a_hop_refuses_is_not_called_silent(reason: str) -> None:
    lost = bad("kafka-1.example:9092", reason, 1, problem="--via forbids forwarding to that address")
    (finding,) = diagnose(examination(lost, via=(SSH,)))
    assert (finding.fault, finding.text.count("forbids forwarding")) == (Fault.HOP_FAILED, 1)


@pytest.mark.parametrize(
    ("address", "says", "command"),
    [
        ("kafka:9092", "has no domain", "docker ps"),
        ("3f9a1c2b4d51:9092", "the name of a container", "docker ps"),
        ("kafka.team.svc:9092", "a Service or a pod", "kubectl get services --all-namespaces | grep kafka"),
        ("kafka.prod.internal:9092", "private network", "getent hosts kafka.prod.internal"),
        ("kafka.example.com:9092", "misspelt", "getent hosts kafka.example.com"),
        ("a'b:9092", "has no domain", "docker ps"),
    ],
)
def test_a_bootstrap_name_that_is_not_resolved(address: str, says: str, command: str) -> None:
    (finding,) = diagnose(examination(bootstrap=(bad(address, "resolve"),)))
    assert says in finding.text
    assert finding.fix[0].startswith(command)
    assert "kproxy" not in finding.advice  # beside the client, it would not resolve the name either


@pytest.mark.parametrize(
    ("via", "command"),
    [
        (SSH, "ssh -p 2222 root@bastion getent hosts kafka.prod.internal"),
        ("kubernetes://kafka", "kubectl --namespace kafka get services,pods"),
        ("docker://shop", "docker network inspect shop"),
        ("http://proxy:3128", "# http://proxy:3128 resolves the name"),
    ],
)
def test_a_name_that_the_last_hop_does_not_resolve(via: str, command: str) -> None:
    (finding,) = diagnose(
        examination(bootstrap=(bad("kafka.prod.internal:9092", "resolve"),), via=("ssh://first", via))
    )
    assert f"the last hop, {via}, cannot resolve the name" in finding.text
    assert f"let the last hop, {via}, resolve it" in finding.advice
    assert "this machine" not in finding.text
    assert finding.fix[0].startswith(command)


def test_an_address_of_a_broker_is_quoted_for_a_shell() -> None:
    evil = bad("$(reboot):9092", "proxy", 1, problem="--via http://proxy:1: no", via_failed=True)
    (finding,) = diagnose(examination(evil, via=("http://proxy:1",)))
    assert "'telnet://$(reboot):9092'" in finding.fix[0]
    expired = bad("$(reboot):9092", "tls-expired", 1)
    (finding,) = diagnose(examination(expired, tls=True))
    assert "-connect '$(reboot):9092' " in finding.fix[1]
    (finding,) = diagnose(examination(bootstrap=(bad("$(reboot):9092", "resolve"),)))
    assert all("$(" not in line.replace("'$(reboot):9092'", "") for line in finding.fix)


def test_an_unreachable_address_is_not_called_silent() -> None:
    (finding,) = diagnose(examination(bad("kafka-1.example:0", "other", 1, problem="0 is not a port")))
    assert "0 is not a port" in finding.text
    assert "accepts the connection" not in finding.text


def test_a_namespace_is_read_from_a_name_in_kubernetes() -> None:
    (finding,) = diagnose(examination(bootstrap=(bad("kafka-0.kafka.team.svc.cluster.local:9092", "resolve"),)))
    assert "--via k8s://team " in finding.fix[1]


def test_a_proxy_that_cannot_connect_to_one_address() -> None:
    """SOCKS servers answer alike if they cannot resolve a name and if they cannot reach the host: it did its part."""
    via = "socks5://proxy:1080"
    problem = f"--via {via} could not connect: General SOCKS server failure"
    for name, fault in (
        ("kafka-1.example:9092", Fault.NO_ROUTE),
        ("kafka1:9092", Fault.CONTAINER_NAME_ADVERTISED),
        ("10.0.0.9:9092", Fault.PRIVATE_ADDRESS_ADVERTISED),
    ):
        finding = diagnose(examination(bad(name, "proxy", 1, problem=problem), via=(via,)))[0]
        assert finding.fault == fault
        assert f"the last hop, {via}" in finding.text
        assert "Correct the hop's address" not in finding.advice
    refused = bad("kafka-1.example:9092", "proxy", 1, problem=f"--via {via} does not allow connections there")
    assert diagnose(examination(refused, via=(via,)))[0].fault == Fault.HOP_FAILED
