"""SIGTERM, SIGHUP and Ctrl-C: what is in flight finishes, what is idle ends, and then kproxy does."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kproxy.dev.devcluster import DevCluster
from tests.harness.clients.rawclient import RawClient
from tests.harness.process import Kproxy, wait_logged, wait_until
from tests.harness.topics import create_topic, leaders, produce

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("hang_ups_reach_children")]

FOREVER_MS = 3_600_000


@dataclass
class Busy:
    """A kproxy with a fetch in flight, which the broker answers when a record comes, and an idle session."""

    proxy: Kproxy
    topic: str
    fetching: RawClient
    correlation_id: int
    idle: RawClient


@pytest.fixture
def busy(cluster: DevCluster, own_kproxy: Callable[..., Kproxy]) -> Iterator[Callable[..., Busy]]:
    """Makes one, with this --drain-timeout and more options."""
    clients: list[RawClient] = []

    def make(drain_timeout: str, *options: str) -> Busy:
        topic = create_topic(cluster.direct_bootstrap, partitions=1)
        leader = leaders(cluster.direct_bootstrap, topic)[0]
        proxy = own_kproxy(cluster.bootstrap, "--drain-timeout", drain_timeout, *options)
        fetching, idle = RawClient(proxy.node(leader)["local"]), RawClient(proxy.bootstrap)
        clients.extend([fetching, idle])
        assert idle.works()
        sent = fetching.send_fetch(topic, 0, 0, FOREVER_MS)
        wait_until(lambda: proxy.metric("kproxy_requests_in_flight") == 1, "the fetch is in flight")
        return Busy(proxy, topic, fetching, sent, idle)

    yield make
    for client in clients:
        client.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_request_in_flight_finishes(cluster: DevCluster, busy: Callable[[str], Busy], number: signal.Signals) -> None:
    made = busy("1h")
    proxy = made.proxy
    silent = RawClient(proxy.bootstrap)  # connected, has said nothing yet
    ports = [proxy.bootstrap, *(node["local"] for node in proxy.status()["nodes"])]
    proxy.process.send_signal(number)
    assert made.idle.wait_closed()
    assert silent.wait_closed()
    silent.close()
    for address in ports:
        with pytest.raises(ConnectionRefusedError):
            RawClient(address)
    assert proxy.get("/readyz") == (503, "kproxy is stopping\n")
    assert proxy.get("/livez")[0] == 200
    assert proxy.process.poll() is None
    # Nothing has come for the fetch: it is answered when a record is there, and whole.
    made.fetching.socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        made.fetching.socket.recv(1)
    made.fetching.socket.settimeout(60)
    produce(cluster.direct_bootstrap, made.topic, [b"what the fetch waits for"])
    correlation_id, answer = made.fetching.receive()
    assert correlation_id == made.correlation_id
    assert b"what the fetch waits for" in answer
    assert made.fetching.wait_closed()
    assert proxy.process.wait(60) == 0
    wait_logged(proxy, f"{number.name}: stopping; 1 request in flight")
    assert "still busy" not in proxy.log


def test_what_does_not_finish_is_closed_in_the_end(busy: Callable[[str], Busy]) -> None:
    made = busy("1s")
    made.proxy.process.send_signal(signal.SIGTERM)
    assert made.idle.wait_closed()
    assert made.fetching.wait_closed()
    assert made.proxy.process.wait(60) == 0
    wait_logged(made.proxy, "closed 1 session still busy after 1 s")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(busy: Callable[[str], Busy], number: signal.Signals) -> None:
    made = busy("1h")
    made.proxy.process.send_signal(number)
    assert made.idle.wait_closed()
    assert made.proxy.process.poll() is None
    made.proxy.process.send_signal(number)
    assert made.proxy.process.wait(60) == 128 + number
    assert made.fetching.wait_closed()
    wait_logged(made.proxy, "stopping at once")


def test_a_first_signal_leaves_an_end_in_good_order_alone(
    cluster: DevCluster, busy: Callable[..., Busy], tmp_path: Path
) -> None:
    """Kubernetes sends SIGTERM to what may be draining already, because the application of its pod has ended."""
    made = busy("1h", "--exit-with", str(tmp_path / "ended"))
    (tmp_path / "ended").touch()
    assert made.idle.wait_closed()
    made.proxy.process.send_signal(signal.SIGTERM)
    wait_until(lambda: caught(made.proxy.process.pid, signal.SIGTERM), "kproxy has the signal")
    assert made.proxy.get("/livez")[0] == 200
    produce(cluster.direct_bootstrap, made.topic, [b"what the fetch waits for"])
    assert made.fetching.receive()[0] == made.correlation_id
    assert made.proxy.process.wait(60) == 0
    wait_logged(made.proxy, "the file exists: stopping; 1 request in flight")


def caught(pid: int, number: signal.Signals) -> bool:
    """Whether a signal that was sent waits no longer (proc_pid_status(5))."""
    status = Path(f"/proc/{pid}/status").read_text()
    pending = int(status.split("ShdPnd:")[1].split()[0], 16)
    return not pending >> (number - 1) & 1


def test_a_signal_before_anything_answers(own_kproxy: Callable[..., Kproxy]) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        proxy = own_kproxy("{}:{}".format(*held.getsockname()), ready=False)
        wait_until(lambda: "no bootstrap server answers" in proxy.log, "kproxy looks for its cluster")
        assert proxy.stop() == 0
