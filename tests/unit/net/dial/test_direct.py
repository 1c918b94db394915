"""Resolving and connecting from this machine. The resolver is the system's, made to wait or to be counted."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError
from kproxy.net.dial import direct, resolver
from kproxy.net.dial.connector import Deadline
from kproxy.net.dial.dialer import Dialer
from kproxy.net.dial.direct import DirectConnector
from kproxy.net.dial.resolver import Resolver
from kproxy.net.dial.stream import Stream
from tests.harness.servers.peers import Peer, black_hole, refused, saying, silent

SystemResolver = Callable[..., Any]


class Watched:
    """The system's resolver. Notes the names that it is asked for; for those in `hanging` it waits until `let_go`."""

    def __init__(self, system: SystemResolver) -> None:
        self._system = system
        self.asked: list[str] = []
        self.hanging: set[str] = set()
        self.instead: dict[str, str] = {}  # a name's address, where the system is not to say it
        self.let_go = threading.Event()

    def __call__(self, host: str, *args: Any, flags: int = 0, **named: Any) -> Any:
        if not flags & socket.AI_NUMERICHOST:
            self.asked.append(host)
            if host in self.hanging:
                self.let_go.wait(60)
            host = self.instead.get(host, host)
        return self._system(host, *args, flags=flags, **named)


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> Any:
    watched = Watched(socket.getaddrinfo)
    monkeypatch.setattr(socket, "getaddrinfo", watched)
    yield watched
    watched.let_go.set()


async def connect(address: Address, seconds: float = 10, way: DirectConnector | None = None) -> None:
    (await (way or DirectConnector()).connect(address, Deadline.after(seconds))).close()


async def failure(address: Address, seconds: float = 10, way: DirectConnector | None = None) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        await connect(address, seconds, way)
    return caught.value


async def test_an_ip_address_asks_no_resolver(system: Watched) -> None:
    with Peer(silent) as peer:
        await connect(Address.parse(peer.address))
    ((family, *_, address),) = await Resolver().resolve(Address("::1", 9092))
    assert (family, address) == (socket.AF_INET6, ("::1", 9092, 0, 0))
    assert system.asked == []


async def test_a_name_is_asked_for_once_and_remembered(system: Watched) -> None:
    resolver = Resolver()
    answers = await asyncio.gather(*(resolver.resolve(Address("localhost", port)) for port in range(1, 20)))
    assert {info[4][1] for info in answers[4]} == {5}
    assert {info[4][0] for info in answers[4]} <= {"127.0.0.1", "::1"}
    await resolver.resolve(Address("localhost", 9092))
    assert system.asked == ["localhost"]


class Clock:
    """The loop's clock, for the resolver's own reckoning: it goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def time(self) -> float:
        return self.now


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(asyncio.get_running_loop(), "time", made.time)
    return made


async def test_a_hundred_dials_that_fail_ask_once(system: Watched) -> None:
    way = DirectConnector()
    with refused() as nobody:
        address = Address("localhost", int(nobody.rpartition(":")[2]))
        for _ in range(10):
            errors = await asyncio.gather(*(failure(address, way=way) for _ in range(10)))
            assert {error.reason for error in errors} == {"refused"}
    assert system.asked == ["localhost"]


@pytest.mark.parametrize("host", ["localhost", "no-such-host.invalid"])
async def test_a_name_that_leads_nowhere_is_asked_for_ever_less(host: str, system: Watched, clock: Clock) -> None:
    resolver = Resolver()
    asked = []
    for _ in range(300):  # a dial each tenth of a second
        with contextlib.suppress(UpstreamError):
            await resolver.resolve(Address(host, 9092))
        resolver.mark_doubtful(host)
        if len(system.asked) > len(asked):
            asked.append(clock.now - 1000)
        clock.now += 0.1
    pauses = [round(later - before) for before, later in itertools.pairwise(asked)]
    assert pauses == [1, 2, 4, 5, 5, 5, 5], asked


async def test_a_name_that_leads_somewhere_else_is_noticed(system: Watched, clock: Clock) -> None:
    resolver = Resolver()
    for _ in range(60):
        with contextlib.suppress(UpstreamError):
            await resolver.resolve(Address("moved.invalid", 9092))
        clock.now += 0.5
    system.instead["moved.invalid"] = "127.0.0.7"
    clock.now += 5
    assert [info[4] for info in await resolver.resolve(Address("moved.invalid", 9092))] == [("127.0.0.7", 9092)]
    # It is there now, and that holds for as long as any answer.
    asked = len(system.asked)
    clock.now += 2.9
    await resolver.resolve(Address("moved.invalid", 9092))
    assert len(system.asked) == asked
    # Nobody is there: the pauses begin anew.
    resolver.mark_doubtful("moved.invalid")
    await resolver.resolve(Address("moved.invalid", 9092))
    assert len(system.asked) == asked + 1


async def test_the_names_that_are_remembered_are_bounded(system: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.net.dial.resolver._MAX_NAMES", 3)
    resolver = Resolver()
    for number in range(10):
        with pytest.raises(UpstreamError):
            await resolver.resolve(Address(f"host-{number}.invalid", 9092))
    resolver.mark_doubtful("host-1.invalid")  # which is forgotten
    assert list(resolver._answers) == [f"host-{number}.invalid" for number in (7, 8, 9)]


async def test_a_missing_name_is_remembered_too(system: Watched) -> None:
    way = DirectConnector()
    for _ in range(3):
        error = await failure(Address("no-such-host.invalid", 9092), way=way)
        assert error.reason == "resolve"
        assert str(error) == "no-such-host.invalid:9092: the name 'no-such-host.invalid' cannot be resolved here"
    assert system.asked == ["no-such-host.invalid"]


async def test_a_resolver_that_hangs_holds_up_nobody_else(system: Watched) -> None:
    """Far more names than an executor has threads, and one that is there beside them."""
    names = [f"hangs-{number}.invalid" for number in range(25)]
    system.hanging.update(names)
    way = DirectConnector()
    with Peer(silent) as peer:
        port = int(peer.address.rpartition(":")[2])
        async with asyncio.TaskGroup() as tasks:
            lost = [tasks.create_task(failure(Address(name, 9092), 0.3, way)) for name in names]
            tasks.create_task(connect(Address("localhost", port), way=way))
            tasks.create_task(asyncio.to_thread(lambda: None))  # the executor that everybody shares
        for name, task in zip(names, lost, strict=True):
            error = task.result()
            assert error.reason == "resolve"
            assert f"the name '{name}' was not resolved within 0.3 s" in str(error)
    # The question that is still open serves those who come later.
    again = asyncio.get_running_loop().create_task(failure(Address(names[0], 9092), 30, way))
    await asyncio.sleep(0)
    system.let_go.set()
    assert "cannot be resolved here" in str(await again)
    assert system.asked.count(names[0]) == 1


@pytest.mark.parametrize("host", ["a" * 300, "x..y", "a\0b", "", "ü" * 80])
async def test_what_cannot_be_a_name_is_not_resolved(host: str) -> None:
    assert (await failure(Address(host, 9092))).reason == "resolve"


@pytest.mark.parametrize("port", [0, -1, 65536, 70000, 2**31 - 1])
async def test_a_port_from_the_wire_that_is_none(port: int) -> None:
    error = await failure(Address("127.0.0.1", port))
    assert str(error).endswith(f"{port} is not a port")


async def test_nobody_there_and_nobody_answers() -> None:
    with refused() as nobody, black_hole() as hole:
        error = await failure(Address.parse(nobody))
        assert error.reason == "refused"
        assert str(error) == f"{nobody}: connection refused: nothing listens on that port"
        error = await failure(Address.parse(hole), 0.2)
        assert error.reason == "timeout"
        assert str(error).startswith(f"{hole}: no answer within 0.2 s")


async def test_kproxy_s_own_listener_is_never_dialled() -> None:
    with Peer(silent) as peer:
        own = Address.parse(peer.address)
        async with asyncio.TaskGroup() as tasks:
            dialer = Dialer([], 10, tasks, lambda address: address == own)
            for name in ("127.0.0.1", "localhost"):
                with pytest.raises(
                    UpstreamError, match="is kproxy's own listener: to connect there would be a loop"
                ) as caught:
                    await dialer.connect(Address(name, own.port))
                assert caught.value.reason == "loop"
        assert peer.accepted == 0


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_connection_that_is_there_at_once_and_one_that_is_not(
    at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over loopback a connection is there when connect(2) returns."""
    if not at_once:
        monkeypatch.setattr(direct, "_is_connected", lambda sock: False)
    with Peer(saying(b"hello", first=True)) as peer, refused() as nobody:
        sock = await DirectConnector().connect(Address.parse(peer.address), Deadline.after(10))
        with sock:
            assert not sock.getblocking()
            assert await Stream(sock).receive(5) == b"hello"
        assert (await failure(Address.parse(nobody))).reason == "refused"


async def test_the_number_of_an_interface_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter((2, 3))

    def look_up(host: str, flags: int = 0) -> list[resolver.AddrInfo]:
        return [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1", 0, 0, next(numbers)))]

    monkeypatch.setattr(resolver, "_look_up", look_up)
    found = [Resolver().parse_ip(Address("fe80::1%eth0", 9092)) for _ in range(2)]
    assert [info[4] for (info,) in found] == [("fe80::1", 9092, 0, 2), ("fe80::1", 9092, 0, 3)]


@pytest.mark.parametrize(
    ("number", "is_macos", "lasting"),
    [
        (socket.EAI_NONAME, False, True),
        (socket.EAI_NONAME, True, False),
        (socket.EAI_AGAIN, False, False),
        (socket.EAI_AGAIN, True, False),
    ],
)
async def test_an_unknown_name_differs_from_an_unanswered_query(
    monkeypatch: pytest.MonkeyPatch, number: int, is_macos: bool, lasting: bool
) -> None:
    """It does not help to wait for the first one. On macOS both have one error."""
    monkeypatch.setattr(resolver, "_NO_NAME_IS_UNSURE", is_macos)

    def getaddrinfo(*_: object, **__: object) -> None:
        raise socket.gaierror(number, "no")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    error = await failure(Address("kafka-1.example", 9092))
    assert (error.reason, error.lasting) == ("resolve", lasting)
    assert "the name 'kafka-1.example' cannot be resolved here" in str(error)
