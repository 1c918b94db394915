"""`--forward`: a web server of the brokers' network through the same hops, beside the real cluster."""

from __future__ import annotations

import http.client
import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from kproxy.dev.devcluster import DevCluster
from tests.harness.process import Kproxy, wait_logged
from tests.harness.servers.ways import Ways
from tests.harness.topics import create_topic, produce, read_topic, values

pytestmark = pytest.mark.integration

Start = Callable[..., Kproxy]
BODY = os.urandom(5_000_000)


class Registry(BaseHTTPRequestHandler):
    """Gives what it has, and back what it is given."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(BODY)

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["Content-Length"])))

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield server.server_address[1]
        server.shutdown()
        serving.join()


def forwarded(proxy: Kproxy) -> http.client.HTTPConnection:
    (there,) = proxy.status()["forwards"]
    host, _, port = there["listen"].rpartition(":")
    return http.client.HTTPConnection(host, int(port), timeout=60)


@pytest.mark.parametrize(
    "hops", [["sshd"], ["socks-login", "http-login"], []], ids=lambda hops: ", ".join(hops) or "direct"
)
def test_a_web_server_through_the_same_hops(
    hops: list[str], registry: int, ways: Ways, cluster: DevCluster, own_kproxy: Start
) -> None:
    via = [word for name in hops for word in ("--via", ways.url(name))]
    proxy = own_kproxy(cluster.bootstrap, *via, "--forward", f"0=localhost:{registry}")
    client = forwarded(proxy)
    for _ in range(2):  # in one connection
        client.request("GET", "/")
        assert client.getresponse().read() == BODY
    client.request("POST", "/", BODY)
    assert client.getresponse().read() == BODY
    client.close()
    topic = create_topic(proxy.bootstrap)
    produce(proxy.bootstrap, topic, [b"beside it"])
    assert values(read_topic(proxy.bootstrap, topic)) == [b"beside it"]
    (there,) = proxy.status()["forwards"]
    assert (there["to"], there["problem"], there["accepted"]) == (f"localhost:{registry}", None, 1)
    counted = f'kproxy_forward_accepted_total{{cluster="default",listen="{there["listen"]}"}} 1'
    assert counted in proxy.get("/metrics")[1].splitlines()
    wait_logged(proxy, f"{there['listen']} is forwarded to localhost:{registry}")


def test_a_kproxy_that_stops_does_not_wait_for_it(registry: int, cluster: DevCluster, own_kproxy: Start) -> None:
    proxy = own_kproxy(cluster.bootstrap, "--forward", f"0=127.0.0.1:{registry}")
    client = forwarded(proxy)
    client.request("GET", "/")
    assert client.getresponse().read() == BODY
    proxy.stop()
    assert client.sock.recv(1) == b"", "it has closed the connection"
    client.close()
