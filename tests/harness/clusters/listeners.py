"""The usual set-ups of `listeners` and `advertised.listeners`, and which clients can use them from where.

Each set-up is real: hosts with separate networks and DNS, a broker, and a forwarder that publishes its ports. A *cell*
is a client in one place that starts at one bootstrap address. A test has a real client try each cell.

    docker-one     a broker in a Docker network advertises localhost:9092
    docker-name    it advertises kafka0:9092, its container's name
    docker-three   one listener each for the Docker network, the host, and other machines
    cloud-one      a broker in a cloud advertises an internal name
    cloud-two      one listener with that name, and one with an external name
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kproxy.base.faults import Fault
from kproxy.dev.devcluster import DevCluster, ListenerSpec
from tests.harness.network import PYTHON, Host, Network

_DNS = "127.0.0.53"


@dataclass(frozen=True, slots=True)
class Place:
    """The host of a client, a broker or a forwarder.

    `names` is the content of its DNS server, `publishes` the ports that it forwards: LISTEN=TARGET.
    """

    name: str
    title: str
    addresses: tuple[str, ...]
    names: Mapping[str, str] = field(default_factory=dict)
    gateway: str = ""
    publishes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cell:
    """A client in a place that starts at `bootstrap`. `fault`: why it fails, None if it works."""

    place: str
    bootstrap: str
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class Setup:
    """One set-up. `listeners` are the broker's; each is published at the port that it is bound to.

    The first listener has the name that clusters of the harness give it.
    """

    name: str
    title: str
    broker: Place
    listeners: tuple[ListenerSpec, ...]
    places: tuple[Place, ...]
    cells: tuple[Cell, ...]

    def told(self, cell: Cell) -> str:
        """Return the address that the broker advertises at the listener where the client starts."""
        port = cell.bootstrap.rpartition(":")[2]
        return next(one.advertised for one in self.listeners if one.bound.endswith(f":{port}"))

    def cluster(self) -> DevCluster:
        """Return its cluster of one broker, not started yet."""
        first, *others = self.listeners
        return DevCluster(1, advertised=first.advertised, client_bound=first.bound, extra_listeners=others, heap="128m")


@dataclass(frozen=True, slots=True)
class Made:
    """A running set-up."""

    setup: Setup
    cluster: DevCluster
    broker: Host
    hosts: Mapping[str, Host]


@contextlib.contextmanager
def stands(setup: Setup) -> Iterator[Made]:
    """Run a set-up for the time of the block."""
    with contextlib.ExitStack() as stack:
        network = stack.enter_context(Network())
        broker = _host(stack, network, setup.broker)
        hosts = {place.name: _host(stack, network, place) for place in setup.places}
        cluster = setup.cluster()
        stack.callback(cluster.stop, timeout=0)
        broker.call(cluster.start)
        yield Made(setup, cluster, broker, hosts)


def _host(stack: contextlib.ExitStack, network: Network, place: Place) -> Host:
    host = stack.enter_context(network.host(place.name, *place.addresses, gateway=place.gateway, dns=_DNS))
    names = [f"{name}={address}" for name, address in place.names.items()]
    server = (PYTHON, "-m", "tests.harness.servers.dns", f"{_DNS}:53", *names)
    stack.enter_context(host.running(*server, until="answering"))
    if place.publishes:
        forward = (PYTHON, "-m", "tests.harness.servers.forward", *place.publishes)
        stack.enter_context(host.running(*forward, until="forwarding"))
    return host


# The set-ups

_KAFKA0 = Place("kafka0", "the broker's container", ("172.18.0.10/16",), {"kafka0": "172.18.0.10"}, "172.18.0.1")
_APP = Place(
    "app", "a container in the same Docker network", ("172.18.0.20/16",), {"kafka0": "172.18.0.10"}, "172.18.0.1"
)
_LAPTOP = Place("laptop", "another machine", ("192.0.2.20/24",), {"dockerhost.example": "192.0.2.10"})


def _docker_host(*ports: int) -> Place:
    published = tuple(f"0.0.0.0:{port}=172.18.0.10:{port}" for port in ports)
    return Place("dockerhost", "the Docker host", ("172.18.0.1/16", "192.0.2.10/24"), publishes=published)


ONE = Setup(
    "docker-one",
    "A broker in Docker that advertises localhost:9092",
    _KAFKA0,
    (ListenerSpec("CLIENT", "localhost:9092", bound="172.18.0.10:9092"),),
    (_docker_host(9092), _APP, _LAPTOP),
    (
        Cell("app", "kafka0:9092", Fault.LOOPBACK_ADVERTISED),
        Cell("dockerhost", "localhost:9092"),
        Cell("laptop", "dockerhost.example:9092", Fault.LOOPBACK_ADVERTISED),
    ),
)
NAME = Setup(
    "docker-name",
    "A broker in Docker that advertises its container's name",
    _KAFKA0,
    (ListenerSpec("CLIENT", "kafka0:9092", bound="172.18.0.10:9092"),),
    (_docker_host(9092), _APP, _LAPTOP),
    (
        Cell("app", "kafka0:9092"),
        Cell("dockerhost", "localhost:9092", Fault.CONTAINER_NAME_ADVERTISED),
        Cell("laptop", "dockerhost.example:9092", Fault.CONTAINER_NAME_ADVERTISED),
    ),
)
THREE = Setup(
    "docker-three",
    "A broker in Docker with a listener for each place",
    _KAFKA0,
    (
        ListenerSpec("CLIENT", "kafka0:29092", bound="172.18.0.10:29092"),
        ListenerSpec("HOST", "localhost:9092", bound="172.18.0.10:9092"),
        ListenerSpec("OTHERS", "192.0.2.10:29094", bound="172.18.0.10:29094"),
    ),
    (_docker_host(9092, 29094), _APP, _LAPTOP),
    (
        Cell("app", "kafka0:29092"),
        Cell("app", "kafka0:9092", Fault.WRONG_LISTENER),
        Cell("app", "kafka0:29094"),
        Cell("dockerhost", "172.18.0.10:29092", Fault.WRONG_LISTENER),
        Cell("dockerhost", "localhost:9092"),
        Cell("dockerhost", "localhost:29094"),
        Cell("laptop", "dockerhost.example:9092", Fault.WRONG_LISTENER),
        Cell("laptop", "192.0.2.10:29094"),
    ),
)

_INTERNAL, _EXTERNAL = "ip-172-31-18-160.ec2.internal", "kafka.cloud.example"
_PRIVATE, _PUBLIC = "172.31.18.160", "198.51.100.18"
_CLOUD_BROKER = Place("broker", "the broker", (f"{_PRIVATE}/20",), {_INTERNAL: _PRIVATE}, "172.31.16.1")
_CLOUD_PLACES = (
    Place(
        "edge", "the cloud's NAT", ("172.31.16.1/20", "198.51.100.1/24", f"{_PUBLIC}/24"),
        publishes=tuple(f"{_PUBLIC}:{port}={_PRIVATE}:{port}" for port in (9092, 29092)),
    ),
    # The cloud's DNS gives the private address for the external name too.
    Place(
        "inside", "a machine in the same cloud network", ("172.31.18.50/20",),
        {_INTERNAL: _PRIVATE, _EXTERNAL: _PRIVATE},
    ),
    Place(
        "laptop", "outside, where the internal name does not resolve", ("198.51.100.50/24",),
        {_EXTERNAL: _PUBLIC}, "198.51.100.1",
    ),
    Place(
        "office", "outside, where it resolves to the private address", ("198.51.100.60/24",),
        {_INTERNAL: _PRIVATE, _EXTERNAL: _PUBLIC}, "198.51.100.1",
    ),
)  # fmt: skip
_CLOUD_LISTENER = ListenerSpec("CLIENT", f"{_INTERNAL}:9092", bound=f"{_PRIVATE}:9092")

CLOUD_ONE = Setup(
    "cloud-one",
    "A broker in a cloud that advertises an internal name",
    _CLOUD_BROKER,
    (_CLOUD_LISTENER,),
    _CLOUD_PLACES,
    (
        Cell("inside", f"{_INTERNAL}:9092"),
        Cell("laptop", f"{_EXTERNAL}:9092", Fault.NAME_NOT_RESOLVED),
        Cell("office", f"{_EXTERNAL}:9092", Fault.PRIVATE_ADDRESS_ADVERTISED),
    ),
)
CLOUD_TWO = Setup(
    "cloud-two",
    "A broker in a cloud with an internal and an external listener",
    _CLOUD_BROKER,
    (_CLOUD_LISTENER, ListenerSpec("EXTERNAL", f"{_EXTERNAL}:29092", bound=f"{_PRIVATE}:29092")),
    _CLOUD_PLACES,
    (
        Cell("inside", f"{_INTERNAL}:9092"),
        Cell("inside", f"{_EXTERNAL}:29092"),
        Cell("laptop", f"{_EXTERNAL}:9092", Fault.WRONG_LISTENER),
        Cell("laptop", f"{_EXTERNAL}:29092"),
        Cell("office", f"{_EXTERNAL}:9092", Fault.WRONG_LISTENER),
        Cell("office", f"{_EXTERNAL}:29092"),
    ),
)

SETUPS = (ONE, NAME, THREE, CLOUD_ONE, CLOUD_TWO)
CELLS = tuple((setup, cell) for setup in SETUPS for cell in setup.cells)
"""All of them."""
