"""Opening one upstream connection: its steps, as a doctor sees them."""

from __future__ import annotations

import asyncio

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError
from kproxy.config import ClusterConfig, Hop
from kproxy.net.dial.connector import DialStep, DialStepKind
from kproxy.proxy.cluster.tasks import SupervisedTaskGroup
from kproxy.proxy.cluster.upstreamconnector import UpstreamConnector
from tests.harness.servers.fakebroker import FakeBroker
from tests.harness.servers.peers import Behaviour, Peer, refused, saying, silent

HTTP = b"HTTP/1.1 400 Bad Request\r\n\r\n"
ALERT = bytes.fromhex("15030300020228")  # handshake_failure


async def steps(address: Address, **options: object) -> list[DialStep]:
    """The steps of one attempt; the last of one that fails has a problem."""
    found: list[DialStep] = []
    config = ClusterConfig(bootstrap_servers=(address,), connect_timeout=0.5, **options)  # type: ignore[arg-type]
    async with SupervisedTaskGroup("a test") as tasks:
        opener = UpstreamConnector(config, tasks, lambda _: False)
        problem = None
        try:
            (await opener.open(address, address.host, found.append)).sock.close()
        except UpstreamError as error:
            problem = str(error)
        await opener.close()
    assert [step.problem for step in found] == [None] * (len(found) - 1) + [problem]
    assert all(0 <= step.seconds < 60 for step in found)
    return found


def kinds(found: list[DialStep]) -> list[str]:
    return [step.kind.value for step in found]


async def test_a_plain_connection() -> None:
    with Peer(FakeBroker()) as peer:
        address = Address.parse(peer.address)
        found = await steps(address)
    assert [(step.kind, step.target) for step in found] == [
        (DialStepKind.RESOLVE, address.host),
        (DialStepKind.CONNECT, str(address)),
    ]


@pytest.mark.parametrize(("host", "where"), [("nowhere.invalid", ["resolve"]), ("127.0.0.1", ["resolve", "connect"])])
async def test_the_step_that_fails_is_the_last(host: str, where: list[str]) -> None:
    with refused() as nobody:
        found = await steps(Address(host, Address.parse(nobody).port))
    assert kinds(found) == where


@pytest.mark.parametrize("behave", [silent, saying(ALERT, first=False), saying(HTTP, first=False)])
async def test_tls_that_fails(behave: Behaviour) -> None:
    with Peer(behave) as peer:
        found = await steps(Address.parse(peer.address), tls=True, tls_insecure=True)
    assert kinds(found) == ["resolve", "connect", "tls"]
    assert "TLS" in (found[-1].problem or "")


async def test_a_login_that_fails() -> None:
    with Peer(FakeBroker()) as peer:  # it hangs up on SaslHandshake
        login = {"sasl": "PLAIN", "sasl_username": "user", "sasl_password": "secret"}
        found = await steps(Address.parse(peer.address), **login)
    assert kinds(found) == ["resolve", "connect", "login"]
    assert "secret" not in str(found)


async def test_a_hop_is_a_step_of_its_own() -> None:
    with Peer(saying(b"HTTP/1.1 502 Bad Gateway\r\n\r\n", first=False)) as peer:
        found = await steps(Address("kafka", 9092), via=(Hop.parse(f"http://{peer.address}"),))
    assert kinds(found) == ["resolve", "connect", "hop"]  # of the proxy itself, and then through it
    assert found[-1].target == f"--via http://{peer.address}"


async def test_one_that_is_given_up_is_reported_too() -> None:
    found: list[DialStep] = []
    with Peer(silent) as peer:
        address = Address.parse(peer.address)
        async with SupervisedTaskGroup("a test") as tasks:
            config = ClusterConfig(bootstrap_servers=(address,), connect_timeout=60, tls=True, tls_insecure=True)
            connected = asyncio.Event()

            def on_step(step: DialStep) -> None:
                found.append(step)
                if step.kind is DialStepKind.CONNECT:
                    connected.set()

            opening = tasks.create_task(
                UpstreamConnector(config, tasks, lambda _: False).open(address, "kafka", on_step)
            )
            await connected.wait()
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
    assert (found[-1].kind, found[-1].problem) == (DialStepKind.TLS, "CancelledError")
