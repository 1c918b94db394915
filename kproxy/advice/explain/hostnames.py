"""Small signs in the names of hosts: containers, machines of clouds, personal computers (pure)."""

from __future__ import annotations

import re
from enum import Enum

from kproxy.base.addressclass import AddressClass, classify


class NameKind(Enum):
    """The kind of a name or address; the value says who gives such a name."""

    CONTAINER_ID = "a container's id"
    HOST_GATEWAY = "a name that Docker gives to its host"
    SERVICE = "a service's name"
    COMPUTER = "a computer's name"
    SHORT = "a name without a domain"
    POD = "a pod's name"
    CLOUD = "a name inside a cloud's network"
    LOCAL = "a name inside a local network"
    OTHER = ""


_HOST_GATEWAYS = frozenset(
    ("host.docker.internal", "gateway.docker.internal", "docker.for.mac.localhost", "docker.for.win.localhost",
     "docker.for.mac.host.internal", "host.containers.internal", "host.lima.internal", "host.minikube.internal",
     "kubernetes.docker.internal")
)  # fmt: skip
# Docker shows 12 digits of an id as the container's host name; the whole id has 64.
_CONTAINER_ID = re.compile(r"[0-9a-f]{12}(?:[0-9a-f]{52})?")
# kafka, kafka-1, kafka2, my-kafka, broker_1, redpanda-0: how Compose files and charts name their services.
_SERVICE = re.compile(
    r"(?:[a-z0-9]{1,20}[-_]){0,3}(?:kafka|broker|redpanda|zookeeper|zoo|zk|kraft|controller|cp-kafka)s?(?:server)?(?:[-_]?[a-z0-9]{1,12}){0,3}"
)
_COMPUTER = re.compile(
    r"laptop|macbook|desktop|notebook|thinkpad|-pc\b|\bpc-|-mbp\b|imac|localhost\.|ubuntu|debian|-vm\b"
)
# kafka-0.kafka-headless, kf-headless.default: a pod of a StatefulSet, or a service, without the cluster's domain.
_POD = re.compile(
    r"([a-z0-9-]{1,63})-\d{1,3}\.\1(?:-[a-z0-9-]{1,40})?(?:\.[a-z0-9-]{1,63})?|"
    r"(?:[a-z0-9-]{1,63}\.)?[a-z0-9-]{1,63}-headless(?:\.[a-z0-9-]{1,63})?"
)
_CLOUD = re.compile(
    r"ip-\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3}(?:\..{1,200})?|.{1,200}\.(?:compute|ec2)\.internal|"
    r".{1,200}\.internal\.cloudapp\.net|.{1,200}\.c\.[a-z0-9-]{1,63}\.internal|.{1,200}\.(?:internal|consul|intra|corp)"
)
_LOCAL = re.compile(r".{1,200}\.(?:local|lan|home|localdomain|fritz\.box|home\.arpa)")


def name_kind(host: str) -> NameKind:
    """Return the kind of a name by its form alone: no resolver is asked."""
    name = host.lower().rstrip(".")[:253]
    if name in _HOST_GATEWAYS:
        return NameKind.HOST_GATEWAY
    if _CONTAINER_ID.fullmatch(name) and not name.isdigit():
        return NameKind.CONTAINER_ID
    place = classify(name.strip("[]"))
    if place is AddressClass.KUBERNETES:
        return NameKind.POD
    if place is AddressClass.SHORT_NAME:
        if _CLOUD.fullmatch(name):
            return NameKind.CLOUD
        if _COMPUTER.search(name):
            return NameKind.COMPUTER
        if name.endswith("-headless"):
            return NameKind.POD
        return NameKind.SERVICE if _SERVICE.fullmatch(name) else NameKind.SHORT
    if place is not AddressClass.PUBLIC or name[-1:].isdigit():
        return NameKind.OTHER
    if _CLOUD.fullmatch(name):
        return NameKind.CLOUD
    if _LOCAL.fullmatch(name):
        return NameKind.LOCAL
    return NameKind.POD if _POD.fullmatch(name) else NameKind.OTHER
