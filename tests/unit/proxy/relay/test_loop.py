"""Waiting for sockets on the loop of the data plane."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable

import pytest

from kproxy.net.dial.stream import Stream, wait_until_ready
from kproxy.proxy.relay.loop import RelayLoop
from kproxy.proxy.relay.selector import READ, RelaySelector
from tests.unit.proxy.relay.talking import POLLERS

Scenario = Callable[[socket.socket, socket.socket, RelaySelector], Awaitable[None]]


@pytest.fixture(params=POLLERS)
def run(request: pytest.FixtureRequest) -> Callable[[Scenario], None]:
    """Runs a scenario with both ends of a connection; ours does not block."""

    def run(scenario: Scenario) -> None:
        selector = RelaySelector(POLLERS[request.param]())
        ours, theirs = socket.socketpair()
        with ours, theirs, asyncio.Runner(loop_factory=lambda: RelayLoop(selector)) as runner:
            ours.setblocking(False)
            runner.run(scenario(ours, theirs, selector))  # type: ignore[arg-type]  # all are coroutines

    return run


def test_what_is_waited_for_comes(run: Callable[[Scenario], None]) -> None:
    async def scenario(ours: socket.socket, theirs: socket.socket, selector: RelaySelector) -> None:
        stream, loop = Stream(ours), asyncio.get_running_loop()
        for said in (b"one", b"two"):
            loop.call_soon(theirs.sendall, said)
            assert await stream.receive(10) == said
        await wait_until_ready(ours, write=True)
        loop.call_soon(theirs.close)
        assert await stream.receive(10) == b""
        assert selector.callback_of(ours.fileno()) is None

    run(scenario)


def test_who_waits_no_more_leaves_nothing_behind(run: Callable[[Scenario], None]) -> None:
    async def scenario(ours: socket.socket, theirs: socket.socket, selector: RelaySelector) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await Stream(ours).receive(1)
        assert selector.callback_of(ours.fileno()) is None
        theirs.sendall(b"x")
        assert await Stream(ours).receive(1) == b"x"

    run(scenario)


def test_a_wait_that_is_ended_in_the_round_of_its_timeout(run: Callable[[Scenario], None]) -> None:
    async def scenario(ours: socket.socket, theirs: socket.socket, selector: RelaySelector) -> None:
        waiting = asyncio.get_running_loop().create_task(wait_until_ready(ours, write=False))
        await asyncio.sleep(0)
        theirs.sendall(b"x")
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
        assert selector.callback_of(ours.fileno()) is None

    run(scenario)


@pytest.mark.parametrize("of_loop", [True, False])
def test_a_socket_that_is_closed_while_somebody_waits(of_loop: bool) -> None:
    """Its number goes to another one, which nothing that is left over disturbs."""

    async def scenario(selector: RelaySelector) -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        waiting = loop.create_task(wait_until_ready(ours, write=False))
        await asyncio.sleep(0)
        number = ours.fileno()
        waiting.cancel()
        ours.close()
        others = socket.socketpair()
        next_one, its_peer = others if others[0].fileno() == number else others[::-1]
        with theirs, next_one, its_peer:
            assert next_one.fileno() == number
            next_one.setblocking(False)
            heard = loop.create_future()
            if of_loop:
                loop.add_reader(number, lambda: heard.done() or heard.set_result(None))
            else:

                def on_event(mask: int) -> None:
                    selector.wake = True
                    selector.end_relay(number)
                    heard.set_result(None)

                selector.relay(number, 1, on_event)
            with pytest.raises(asyncio.CancelledError):
                await waiting
            its_peer.sendall(b"x")
            await asyncio.wait_for(heard, 30)
            loop.remove_reader(number) if of_loop else None

    selector = RelaySelector()
    with asyncio.Runner(loop_factory=lambda: RelayLoop(selector)) as runner:
        runner.run(scenario(selector))


def test_a_socket_that_was_closed_leaves_its_number_to_another(run: Callable[[Scenario], None]) -> None:
    async def scenario(ours: socket.socket, theirs: socket.socket, selector: RelaySelector) -> None:
        events: list[str] = []
        arrived = asyncio.Event()
        selector.relay(ours.fileno(), READ, lambda mask: events.append("closed"))
        number = ours.fileno()
        selector.forget_relay(number)
        ours.close()
        theirs.close()
        others = socket.socketpair()
        with others[0], others[1]:
            ends = {sock.fileno(): sock for sock in others}
            assert number in ends

            def on_event(mask: int) -> None:
                events.append("open")
                arrived.set()
                selector.end_relay(number)
                selector.wake = True

            selector.relay(number, READ, on_event)
            next(sock for sock in others if sock.fileno() != number).sendall(b"x")
            await arrived.wait()
        assert events == ["open"]

    run(scenario)
