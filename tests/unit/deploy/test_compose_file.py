"""The Compose example: valid, and its ports and names agree with each other."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose

from kproxy.config import Config
from kproxy.config.kinds import duration
from tests.unit.deploy.deployed import IMAGE_FILE, ROOT, all_ports, run_config
from tests.unit.deploy.dockerfile import kproxy_env

FOLDER = ROOT / "deploy" / "compose"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
KPROXIES = [name for name, service in SERVICES.items() if service["image"].startswith("kproxy:")]


def check(document: dict[str, Any]) -> None:
    """Raise ValueError unless the document follows the Compose specification and refers to nothing missing."""
    text = json.dumps(document).replace("host-gateway", "192.0.2.1")  # a word of Docker's, newer than the checker
    PyCompose.from_json(text).validate()


def interpolated(text: str) -> str:
    """As Compose does it with an empty environment."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def config_of(name: str) -> Config:
    words = shlex.split(interpolated(SERVICES[name]["command"]))
    return run_config(words, kproxy_env())


def published(name: str) -> dict[int, int]:
    """Port inside → port outside."""
    ports: dict[int, int] = {}
    for entry in SERVICES[name]["ports"]:
        outside, inside = (part.split("-") for part in entry.split(":")[-2:])
        first_out, first_in, last_in = int(outside[0]), int(inside[0]), int(inside[-1])
        assert int(outside[-1]) - first_out == last_in - first_in, entry
        ports |= {port: first_out + port - first_in for port in range(first_in, last_in + 1)}
    return ports


def listeners(variable: str) -> dict[str, str]:
    return dict(entry.split("://") for entry in SERVICES["broker"]["environment"][variable].split(","))


def test_it_follows_the_compose_specification() -> None:
    check(COMPOSE)


@pytest.mark.parametrize(
    "mistake",
    [{"prots": ["1:1"]}, {"networks": ["nowhere"]}, {"healthcheck": {"interval": "soon"}}],
    ids=["a key that does not exist", "a network that does not exist", "not a duration"],
)
def test_the_check_finds_mistakes(mistake: dict[str, Any]) -> None:
    broken = {**COMPOSE, "services": {**SERVICES, "broker": {**SERVICES["broker"], **mistake}}}

    with pytest.raises(ValueError, match=r"."):
        check(broken)


def test_one_kproxy_serves_this_machine_and_one_the_outside() -> None:
    assert KPROXIES == ["kproxy-host", "kproxy-outside"]
    advertised = [config_of(name).clusters[0].advertise for name in KPROXIES]

    assert [str(host) for host in advertised] == ["localhost", "host.docker.internal"]


@pytest.mark.parametrize("name", KPROXIES)
def test_advertised_ports_are_published_under_the_same_number(name: str) -> None:
    config = config_of(name)

    for cluster in config.clusters:
        assert cluster.listen.is_wildcard  # loopback would be the container's own
        for port in all_ports(config):
            assert published(name).get(port) == port
            assert cluster.advertised_port(port) == port


@pytest.mark.parametrize("name", KPROXIES)
def test_metrics_are_published_to_this_machine_only(name: str) -> None:
    admin = config_of(name).admin

    assert admin is not None
    assert admin.is_wildcard
    if admin.port in published(name):
        assert all(entry.startswith("127.0.0.1:") for entry in SERVICES[name]["ports"])


def test_no_port_is_published_twice() -> None:
    outside = [port for name, service in SERVICES.items() if "ports" in service for port in published(name).values()]

    assert len(outside) == len(set(outside))


@pytest.mark.parametrize("name", KPROXIES)
def test_kproxy_has_few_rights_and_enough_time_to_drain(name: str) -> None:
    service = SERVICES[name]

    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert (FOLDER / service["build"] / "Dockerfile").resolve() == ROOT / "Dockerfile"
    assert duration(0, 3600).parse(service["stop_grace_period"]) > config_of(name).drain_timeout


@pytest.mark.parametrize("name", KPROXIES)
def test_kproxy_dials_bob_where_it_can_resolve_the_name(name: str) -> None:
    (server,) = config_of(name).clusters[0].bootstrap_servers

    assert str(server) == listeners("KAFKA_ADVERTISED_LISTENERS")["BOB"]
    assert server.host == SERVICES["broker"]["hostname"]


def test_every_listener_is_bound_advertised_and_has_a_protocol() -> None:
    bound, advertised = listeners("KAFKA_LISTENERS"), listeners("KAFKA_ADVERTISED_LISTENERS")
    protocols = dict(
        entry.split(":")
        for entry in SERVICES["broker"]["environment"]["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(",")
    )

    assert set(advertised) == {"BOB", "FRED", "ALICE"}
    assert set(bound) == set(protocols) == {*advertised, "CONTROLLER"}
    for name, address in advertised.items():
        assert bound[name].rpartition(":")[2] == address.rpartition(":")[2]
    for name in ("FRED", "ALICE"):
        port = int(advertised[name].rpartition(":")[2])
        assert published("broker")[port] == port


def test_carol_shares_no_network_and_uses_the_outside_kproxy() -> None:
    carol = SERVICES["carol"]
    outside = config_of("kproxy-outside").clusters[0]

    assert set(carol["networks"]).isdisjoint(SERVICES["kproxy-outside"].get("networks", ["default"]))
    assert outside.advertise is not None
    assert f"{outside.advertise.host}:{outside.listen.port}" in carol["command"]
    assert any(entry.startswith(f"{outside.advertise.host}:") for entry in carol["extra_hosts"])
    assert carol["image"] == SERVICES["broker"]["image"]


def test_the_readme_names_the_addresses_of_the_example() -> None:
    text = (FOLDER / "README.md").read_text()
    for address in listeners("KAFKA_ADVERTISED_LISTENERS").values():
        assert f"`{address}`" in text
    assert f"localhost:{config_of('kproxy-host').clusters[0].listen.port}" in text
    assert f"host.docker.internal:{config_of('kproxy-outside').clusters[0].listen.port}" in text


def test_the_yaml_in_the_readme_fits_together() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", (FOLDER / "README.md").read_text(), re.S)
    fragment = yaml.safe_load(block)
    check({"services": {"kproxy": {"image": "kproxy", **fragment}}})
    config = run_config(shlex.split(fragment["command"]), {"KPROXY_CONFIG": str(IMAGE_FILE)})
    cluster = config.clusters[0]
    node_ports = cluster.effective_node_ports()

    assert fragment["ports"] == [
        f"29092:{cluster.listen.port}",
        f"{cluster.advertised_port(node_ports.first)}-{cluster.advertised_port(node_ports.last)}:{node_ports}",
    ]
