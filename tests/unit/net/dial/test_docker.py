"""`--via docker://NETWORK`, with a stand-in for the engine. Real containers of Podman are in tests/matrix."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError, ViaError
from kproxy.config import Hop
from kproxy.net.dial import docker, engine
from kproxy.net.dial.connector import Deadline
from kproxy.net.dial.direct import DirectConnector
from kproxy.net.dial.docker import Docker, find_addresses
from kproxy.net.dial.engine import EngineError
from tests.harness.servers.engine import Engine, ok


@pytest.fixture
def containers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """An engine, the only one here."""
    made = Engine(tmp_path / "docker.sock")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{made.path}")
    monkeypatch.setattr(engine, "find_sockets", lambda: [("Docker", made.path)])
    yield made
    made.close()


@pytest.fixture
def port() -> Iterator[int]:
    """Something listens there, at 127.0.0.2 alone."""
    with socket.create_server(("127.0.0.2", 0)) as listener:
        yield listener.getsockname()[1]


async def connect(host: str, port: int, network: str = "n", seconds: float = 5.0) -> tuple[str, int]:
    """Where it leads."""
    way = Docker(Hop.parse(f"docker://{network}"), DirectConnector())
    with await way.connect(Address(host, port), Deadline.after(seconds)) as sock:
        await way.close()
        name: tuple[str, int] = sock.getpeername()
        return name


async def fails(host: str, network: str = "n", port: int = 1, seconds: float = 5.0) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        await connect(host, port, network, seconds)
    return caught.value


@pytest.mark.parametrize(
    "host", ["shop-kafka-1", "kafka", "KAFKA.", "broker1", "kafka.n", "k1.internal", "{id}", "kafka.dns.podman"]
)
async def test_names_of_a_container(host: str, containers: Engine, port: int) -> None:
    identity = containers.add(
        "shop-kafka-1",
        "apache/kafka",
        service="kafka",
        aliases=["broker1"],
        hostname="k1.internal",
        address="127.0.0.2",
    )
    containers.add("other", "apache/kafka", aliases=["brokers"], address="127.0.0.3")
    containers.add("gone", "apache/kafka", aliases=["broker1"])  # without an address it is not in this network now
    assert await connect(host.format(id=identity[:12]), port) == ("127.0.0.2", port)


async def test_an_address_needs_no_engine(containers: Engine, port: int) -> None:
    assert await connect("127.0.0.2", port) == ("127.0.0.2", port)
    assert containers.asked == []


async def test_a_service_with_several_containers(containers: Engine, port: int) -> None:
    """Docker's DNS gives all of them, too. The first does not listen."""
    containers.add("shop-kafka-1", "apache/kafka", service="kafka", address="127.0.0.3")
    containers.add("shop-kafka-2", "apache/kafka", service="kafka", address="127.0.0.2")
    assert await connect("kafka", port) == ("127.0.0.2", port)


async def test_a_container_that_comes_back_with_another_address(containers: Engine, port: int) -> None:
    identity = containers.add("kafka", "apache/kafka", address="127.0.0.3")
    assert (await fails("kafka", port=port)).reason == "refused"
    containers.containers[identity]["NetworkSettings"]["Networks"]["n"]["IPAddress"] = "127.0.0.2"
    assert await connect("kafka", port) == ("127.0.0.2", port)


async def test_a_name_that_no_container_has(containers: Engine) -> None:
    for number in range(12):
        containers.add(f"c{number:02}\x1b", "x", address="127.0.0.2")
    error = await fails("kafka9")
    assert error.reason == "resolve"
    assert "no container of network n is called 'kafka9' (it has: c00\\x1b, c01\\x1b" in str(error)
    assert str(error).endswith("and 2 more)")
    assert not isinstance(error, ViaError)


async def test_a_network_that_is_not_there(containers: Engine) -> None:
    containers.networks = ["bridge", "shop_default"]
    error = await fails("kafka", "shop")
    assert isinstance(error, ViaError)
    assert str(error) == "--via docker://shop: there is no network 'shop' (there are: bridge, shop_default)"


async def test_no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(engine, "find_sockets", lambda: [])
    assert "no engine of Docker or Podman was found" in str(await fails("kafka"))
    monkeypatch.setattr(engine, "find_sockets", lambda: [("Docker", tmp_path / "gone.sock")])
    assert "gone.sock: No such file or directory" in str(await fails("kafka"))


async def test_the_second_engine_has_it(
    containers: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, port: int
) -> None:
    """The first one cannot even be asked."""
    containers.add("kafka", "x", address="127.0.0.2")
    sockets = [("Docker", tmp_path / "gone.sock"), ("Podman", containers.path)]
    monkeypatch.setattr(engine, "find_sockets", lambda: sockets)
    assert await connect("kafka", port) == ("127.0.0.2", port)


async def test_an_engine_that_is_silent(containers: Engine) -> None:
    silent = threading.Event()
    containers.answer = lambda target: b"" if silent.wait(10) else None
    error = await fails("kafka", seconds=0.2)
    assert str(error) == "--via docker://n: the engine gave no answer within 0.2 s"
    silent.set()


def test_an_engine_that_is_slow_with_each_container(containers: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it together has a time as well: a thread waits for it."""
    for number in range(20):
        containers.add(f"c{number}", "x", address="127.0.0.2")
    now = [0.0]

    def answer(target: str) -> None:
        now[0] += 1.0

    containers.answer = answer
    monkeypatch.setattr(docker, "monotonic", lambda: now[0])
    with pytest.raises(EngineError, match=r"is slow: it was asked about [0-9]+ containers in 5 s"):
        find_addresses("kafka", "n", 5.0)
    assert len(containers.asked) <= 7


@pytest.mark.parametrize(
    "document",
    [
        None, [], {}, 7, "x", [None], [{}], [{"Id": "../x"}], [{"Id": "a", "Names": [7]}], {"Networks": 7},
        [{"Id": "a", "Names": ["/kafka"], "NetworkSettings": {"Networks": {"n": {"IPAddress": "elsewhere.example"}}}}],
        [{"Id": "a", "Names": ["/kafka"], "NetworkSettings": {"Networks": {"n": {"IPAddress": ["127.0.0.2"]}}}}],
        [{"Id": "a", "Names": "/kafka", "Labels": [], "NetworkSettings": []}],
    ],
    ids=str,
)  # fmt: skip
async def test_nonsense(document: Any, containers: Engine) -> None:
    containers.answer = lambda target: ok(document)
    assert (await fails("kafka")).reason in ("resolve", "docker")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"", "docker.sock"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[", "docker.sock"),
        (b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", "it answers 500"),
        (b"SSH-2.0-x\r\n", "docker.sock"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\xff\xff\xff\xff", "docker.sock"),
        (ok("[" * 20)[:-1] + b"[" * 200_000, "docker.sock"),
    ],
    ids=["nothing", "half", "an error", "no HTTP", "no text", "deep"],
)
async def test_what_is_no_engine(answer: bytes, says: str, containers: Engine) -> None:
    containers.answer = lambda target: answer
    error = await fails("kafka")
    assert error.reason == "docker"
    assert says in str(error)


def test_an_answer_without_an_end(containers: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_MOST", 1000)
    containers.answer = lambda target: ok(["x" * 2000])
    with pytest.raises(EngineError, match="its answer is too long"):
        find_addresses("kafka", "n", 5.0)


@pytest.mark.parametrize("reason", ["timeout", "unreachable", "refused"])
async def test_containers_in_a_virtual_machine(reason: str, containers: Engine) -> None:
    """Where the host has no way to them, it is said why."""

    class Far(DirectConnector):
        async def connect(self, address: Address, limit: Deadline) -> socket.socket:
            raise UpstreamError(reason, f"{address}: no answer")

    containers.add("kafka", "x", address="127.0.0.2")
    way = Docker(Hop.parse("docker://n"), Far())
    with pytest.raises(UpstreamError) as caught:
        await way.connect(Address("kafka", 9092), Deadline.after(5))
    assert caught.value.reason == reason
    assert str(caught.value).startswith("kafka:9092: 127.0.0.2:9092: no answer (through --via docker://n)")
    assert ("Docker Desktop" in str(caught.value)) is (reason != "refused")


async def test_many_at_once(containers: Engine, port: int) -> None:
    containers.add("kafka", "x", address="127.0.0.2")
    found = await asyncio.gather(*(connect("kafka", port) for _ in range(50)))
    assert set(found) == {("127.0.0.2", port)}
