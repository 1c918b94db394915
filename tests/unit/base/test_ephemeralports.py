"""Whose port it is that cannot be had."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.base.address import Address
from kproxy.base.ephemeralports import find_connection
from kproxy.base.errors import ConfigError
from kproxy.config.values import PortRange
from kproxy.proxy.admin.handlers import AdminSources
from kproxy.proxy.admin.server import start_admin
from kproxy.proxy.metrics import Metrics
from kproxy.proxy.relay.selector import RelaySelector
from tests.harness.process import free_window
from tests.harness.servers.peers import Peer, silent, taken
from tests.unit.proxy.cluster.doorway import Doorway, in_loop

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
LINE = "   0: {} {} {} 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0\n"


@pytest.mark.skipif(sys.byteorder != "little", reason="the tables are those of a little-endian machine")
@pytest.mark.parametrize(
    ("lines", "peer"),
    [
        ([], None),
        ([("0100007F:4A96", "0200000A:2384", "01")], Address("10.0.0.2", 9092)),
        ([("0100007F:4A97", "0200000A:2384", "01")], None),
        ([("0100007F:4A96", "0200000A:2384", "01"), ("0100007F:4A96", "00000000:0000", "0A")], None),
        ([("0" * 24 + "01000000:4A96", "B80D0120" + "0" * 16 + "01000000:2384", "01")], Address("2001:db8::1", 9092)),
        ([("0" * 16 + "FFFF00000100007F:4A96", "0" * 16 + "FFFF00000200000A:2384", "01")], Address("10.0.0.2", 9092)),
        ([("nonsense", "", "")], None),
    ],
)
def test_what_the_system_tells(lines: list[tuple[str, str, str]], peer: Address | None, tmp_path: Path) -> None:
    table = tmp_path / "tcp"
    table.write_text(HEAD + "".join(LINE.format(*line) for line in lines))
    assert find_connection(19094, [tmp_path / "missing", table]) == peer


def window_of_clients(count: int) -> int:
    """The first of so many ports in a row that a client may bind: no connection that has ended stays at them."""
    for _ in range(50):
        first = free_window(count)
        with contextlib.suppress(OSError), contextlib.ExitStack() as held:
            for port in range(first, first + count):
                held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
    raise RuntimeError(f"no {count} such ports in a row")


@contextlib.contextmanager
def connection_from(port: int) -> Iterator[str]:
    """A connection whose local end has this port; where it leads to."""
    with Peer(silent) as peer, socket.socket() as connection:
        connection.bind(("127.0.0.1", port))
        host, its_port = peer.address.split(":")
        connection.connect((host, int(its_port)))
        yield peer.address


linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")


@linux
def test_a_node_whose_port_is_a_connection_s_says_so(caplog: pytest.LogCaptureFixture) -> None:
    first = window_of_clients(10)

    async def scenario(selector: RelaySelector) -> None:
        door = Doorway(selector, "nowhere.invalid:1", node_ports=PortRange(first, first + 9))
        ports = door.gateway.topology.nodes
        with connection_from(first + 1) as peer, taken(first + 2):
            door.learn((1, "nowhere.invalid:1"), (2, "nowhere.invalid:1"), (3, "nowhere.invalid:1"))
            said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
            one, two, three = ports.values()
            assert said == [
                f"broker 1 has the local port {one.port} instead of {first + 1}: it is the local end of a connection to"
                f" {peer}; keep --listen and --node-ports below the ports that the system assigns to connections"
                " (net.ipv4.ip_local_port_range)",
                f"broker 2 has the local port {two.port} instead of {first + 2}: it is taken by another process",
            ]
            assert three.port == first + 3
            before = one.port
        # Clients know its port by now: it keeps that, though the first one is free again.
        door.learn((2, "nowhere.invalid:1"), (3, "nowhere.invalid:1"))
        door.learn((1, "nowhere.invalid:1"), (2, "nowhere.invalid:1"), (3, "nowhere.invalid:1"))
        assert one.port == before
        await door.close()

    in_loop(scenario)()


def test_ports_next_to_a_port_of_the_system_cause_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")

    async def scenario(selector: RelaySelector) -> None:
        door = Doorway(selector, "nowhere.invalid:1")
        with taken(door.gateway.topology.ports.first + 1):
            door.learn((1, "nowhere.invalid:1"))
        assert [r.levelname for r in caplog.records if "instead of" in r.getMessage()] == ["INFO"]
        await door.close()

    in_loop(scenario)()


@linux
def test_a_listen_port_that_is_a_connection_s_says_so() -> None:
    port = window_of_clients(1)

    async def scenario(selector: RelaySelector) -> None:
        with connection_from(port) as peer, pytest.raises(ConfigError) as caught:
            Doorway(selector, "nowhere.invalid:1", listen=Address("127.0.0.1", port))
        assert str(caught.value) == (
            f"--listen 127.0.0.1:{port}: the port is the local end of a connection to {peer};"
            " choose another with --listen HOST:PORT"
        )

    in_loop(scenario)()


@linux
async def test_an_admin_port_that_is_a_connection_s_says_so() -> None:
    port = window_of_clients(1)

    with (
        connection_from(port) as peer,
        pytest.raises(ConfigError, match=f"is the local end of a connection to {peer};"),
    ):
        await start_admin(Address("127.0.0.1", port), AdminSources(Metrics(), dict, tuple))
