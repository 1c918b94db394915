"""The hosts that the scenarios stand on: apart from each other, and gone with whoever made them."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.harness.network import PYTHON, ROOT, Network
from tests.harness.process import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("network")]

MAKES_HOSTS = """
from tests.harness.network import Network
with Network() as network, network.host("left", "10.0.0.1/24") as left, network.host("right", "10.0.0.2/24") as right:
    with left.running("sh", "-c", "echo $$; sleep 600 & echo $!; echo there; wait", until="there") as said:
        print(left.pid, right.pid, *said().split()[:2], flush=True)
        input()
"""


def test_names_addresses_and_who_reaches_whom() -> None:
    listen = "import socket; s = socket.create_server(('10.0.0.1', 9092)); print('there', flush=True); s.accept()"
    connect = "import socket; print(socket.create_connection(('left.example', 9092), 5).getpeername()[0])"
    names = {"left.example": "10.0.0.1"}
    with (
        Network() as network,
        network.host("left", "10.0.0.1/24") as left,
        network.host("right", "10.0.0.2/24", names=names) as right,
        network.host("apart", "10.0.1.2/24", names=names) as apart,
        network.host("nameless", "10.0.0.3/24") as nameless,
        Network() as another,
        another.host("same", "10.0.0.1/24", names=names) as same,
        left.running(PYTHON, "-c", listen, until="there"),
    ):
        assert left.run("hostname").stdout == "left\n"
        assert "Network is unreachable" in apart.run(PYTHON, "-c", connect).stderr
        assert "Name or service not known" in nameless.run(PYTHON, "-c", connect).stderr
        assert "Connection refused" in same.run(PYTHON, "-c", connect).stderr
        assert right.run(PYTHON, "-c", connect).stdout == "10.0.0.1\n"


def test_nothing_is_left_when_the_maker_is_killed() -> None:
    with subprocess.Popen(
        [PYTHON, "-c", MAKES_HOSTS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as maker:
        assert maker.stdout is not None
        pids = [int(pid) for pid in maker.stdout.readline().split()]
        assert len(pids) == 4
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
        os.kill(maker.pid, signal.SIGKILL)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "every process is gone")


def test_a_host_that_asks_a_dns_server() -> None:
    resolve = "import socket, sys; print(socket.gethostbyname(sys.argv[1]))"
    with (
        Network() as network,
        network.host("names", "10.0.0.53/24") as names,
        network.host("asks", "10.0.0.2/24", names={"of.hosts": "10.0.0.9"}, dns="10.0.0.53") as asks,
        names.running(
            PYTHON, "-m", "tests.harness.servers.dns", "10.0.0.53:53", "Kafka.Example=10.0.0.11", until="answering"
        ),
    ):
        assert asks.run(PYTHON, "-c", resolve, "kafka.example").stdout == "10.0.0.11\n"
        assert asks.run(PYTHON, "-c", resolve, "of.hosts").stdout == "10.0.0.9\n"
        assert "Name or service not known" in asks.run(PYTHON, "-c", resolve, "another.example").stderr
