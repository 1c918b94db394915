"""The status page without kproxy: a server of `kproxy.proxy.admin.statuspage` with snapshots of a test."""

from __future__ import annotations

import json
import math
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kproxy.proxy.admin.statuspage import document
from tests.harness.clients.browser import Browser

Snapshot = dict[str, Any]


class LivePage:
    """A server of the page.

    `show` sends a snapshot to all viewers. They get it again every two seconds, because kproxy is never silent; later
    viewers get it at once. `status` other than 200 is the answer to /live from now on. `viewers`: the open streams.
    """

    def __init__(self) -> None:
        self.status = 200
        self.viewers = 0
        self.changed = threading.Condition()
        self._newest: tuple[int, bytes] = (0, b"")
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        self.port = 0
        self.up()

    def __enter__(self) -> LivePage:
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def show(self, snapshot: Snapshot) -> None:
        with self.changed:
            number = self._newest[0] + 1
            self._newest = (number, f"data: {json.dumps(snapshot)}\n\n".encode())
            self.changed.notify_all()

    def up(self) -> None:
        """Listen, on the former port if it listened before."""
        assert self._server is None
        server = _Server(("127.0.0.1", self.port), _handler(self))
        self.port = server.server_address[1]
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def down(self) -> None:
        """End all streams and stop listening."""
        if self._server is None:
            return
        server, self._server = self._server, None
        with self.changed:
            self.changed.notify_all()
        server.shutdown()
        server.hang_up()
        server.server_close()  # waits for the streams
        assert self._thread is not None
        self._thread.join()

    def stream(self, handler: BaseHTTPRequestHandler) -> None:
        """Send each snapshot until the server stops or the viewer leaves."""
        sent, at = 0, 0.0
        with self.changed:
            self.viewers += 1
            server = self._server
            self.changed.notify_all()
        try:
            handler.wfile.write(b"retry: 2000\n\n")
            while True:
                with self.changed:
                    if self._server is server and self._newest[0] == sent:
                        self.changed.wait(0.1)
                    if self._server is not server or self.status != 200:
                        return
                    number, event = self._newest
                # A comment finds out whether the viewer is still there.
                due = number > sent or (number and time.monotonic() - at > 2)
                handler.wfile.write(event if due else b":\n\n")
                if due:
                    sent, at = number, time.monotonic()
        except OSError:
            pass
        finally:
            with self.changed:
                self.viewers -= 1
                self.changed.notify_all()

    def wait_for_viewers(self, number: int, seconds: float = 120) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.viewers == number, seconds), f"{self.viewers} viewers"


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True
    allow_reuse_address = True

    def __init__(self, *arguments: Any) -> None:
        self.connections: set[socket.socket] = set()
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.add(request)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.connections.discard(request)

    def hang_up(self) -> None:
        """Close connections that a browser has opened in advance without a request."""
        for connection in list(self.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def _handler(live: LivePage) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/":
                page, headers = document()
                self._answer(200, {**headers, "Content-Length": str(len(page))})
                if self.command == "GET":
                    self.wfile.write(page)
            elif path == "/live":
                self._answer(live.status, {"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
                if self.command == "GET" and live.status == 200:
                    live.stream(self)
            else:
                self._answer(404, {"Content-Length": "0"})

        do_HEAD = do_GET

        def _answer(self, status: int, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def traffic(requests: float = 0, errors: int = 0, **more: Any) -> Snapshot:
    last = {"api": "Produce", "code": 6, "name": "NOT_LEADER_OR_FOLLOWER", "time": time.time() - 20} if errors else None
    return {
        "requests": requests,
        "from_client": requests * 900,
        "to_client": requests * 2100,
        "p50": 0.0012 if requests else None,
        "p99": 0.02 if requests else None,
        "errors": errors,
        "last_error": last,
        **more,
    }


def node(number: int, **more: Any) -> Snapshot:
    return {
        "node": str(number),
        "kind": "broker",
        "id": number,
        "advertised": f"kafka-{number}.internal:9092",
        "local": f"localhost:{9092 + number}",
        "bound": True,
        "present": True,
        "dial": f"10.0.0.{number % 250}:9092",
        "route": "mapped",
        "checked": True,
        "proof": "the broker says so",
        "problem": None,
        "sessions": 2,
        "traffic": traffic(12),
        **more,
    }


def asked(api: str, requests: int, errors: int = 0) -> Snapshot:
    return {
        "api": api,
        "requests": requests,
        "last": time.time() - 2,
        "errors": errors,
        "last_error": traffic(1, errors)["last_error"],
    }


def client(name: str, nodes: dict[str, int], **more: Any) -> Snapshot:
    return {
        "address": "127.0.0.1",
        "client_id": name,
        "software": "apache-kafka-java 4.1.0",
        "users": [],
        "sessions": sum(nodes.values()),
        "nodes": nodes,
        "since": time.time() - 200,
        "traffic": traffic(8),
        "observed_since": time.time() - 100,
        "asked": [],
        "asked_left_out": 0,
        "addresses": [],
        "unusable": [],
        **more,
    }


def cluster(**more: Any) -> Snapshot:
    return {
        "name": "default",
        "cluster_id": "MkU3OEVBNTcwNTJENDM2Qg",
        "bootstrap_servers": ["kafka.example:9092"],
        "via": [],
        "listen": "127.0.0.1:9092",
        "bootstrap": "localhost:9092",
        "problem": None,
        "answered": True,
        "searched": True,
        "full": None,
        "forwards": [],
        "forward_commands": [],
        "upstreams": [],
        "switch": None,
        "sessions": 4,
        "nodes": [node(1), node(2), node(3)],
        "bootstrap_traffic": traffic(0.4),
        "bootstrap_sessions": 1,
        "apis": [
            {"node": str(n), "api": api, **traffic(rate * n, p99=0.004 * n)}
            for n in (1, 2, 3)
            for api, rate in (("Fetch", 6), ("Produce", 4), ("Metadata", 0.03), ("Heartbeat", 0.33))
        ],
        "clients": [client("producer-1", {"1": 2, "bootstrap": 1}), client("consumer-1", {"2": 1, "3": 1})],
        "clients_left_out": 0,
        "groups": [{"group": "billing", "clients": ["consumer-1"], "members": 2, "node": "2"}],
        "groups_left_out": 0,
        **more,
    }


def finding(**more: Any) -> Snapshot:
    return {
        "fault": "stable-id",
        "severity": "error",
        "cluster": "default",
        "node": "2",
        "client": None,
        "since": time.time() - 60,
        "title": "A broker's name cannot be resolved",
        "text": "Broker 2 advertises `kafka-2.internal:9092`; kproxy cannot resolve this name.",
        "fix": [],
        "why": "The broker advertises a name that only machines in its own network know.",
        "check": "`getent hosts kafka-2.internal` prints nothing on this machine.",
        "advice": "Tell kproxy where the broker is: `--map kafka-2.internal:9092=10.0.0.2:9092`.",
        **more,
    }


def event(number: int, text: str, level: str = "INFO", **more: Any) -> Snapshot:
    return {
        "number": number,
        "time": time.time() - 100 + number,
        "level": level,
        "text": text,
        "since": time.time() - 100 + number,
        "times": 1,
        "like_it": [],
        "like_it_left_out": 0,
        "meaning": None,
        "fix": None,
        **more,
    }


def snapshot(**more: Any) -> Snapshot:
    """Return the snapshot of a kproxy without problems."""
    return {
        "version": "1.2.3",
        "time": time.time(),
        "since": "2026-11-22T19:00:00+00:00",
        "reloads": 0,
        "draining": False,
        "clusters": [cluster()],
        "findings": [],
        "events": [event(1, "the cluster has 3 brokers"), event(2, "kproxy is ready")],
        **more,
    }


def troubled(second: float = 0) -> Snapshot:
    """Return the snapshot of brokers behind an SSH server, one of them unreachable; numbers follow `second`."""

    def wave(mean: float, phase: float) -> float:
        return max(0.0, mean * (1 + 0.35 * math.sin(second / 23 + phase) + 0.12 * math.sin(second * 1.7 + phase)))

    lost = "b3.prod.internal:9092: the SSH server bastion could not connect (Name or service not known)"
    nodes = [
        node(
            n,
            advertised=f"b{n}.prod.internal:9092",
            dial=None if n == 3 else f"10.20.0.{n}:9092",
            route=None if n == 3 else "learned" if n == 1 else "mapped",
            checked=n != 3,
            problem=lost if n == 3 else None,
            sessions=[6, 4, 0, 3, 2, 1][n - 1],
            traffic=traffic(
                0 if n == 3 else wave(240 / n, n), 14 if n == 5 else 0, p99=None if n == 3 else wave(0.012 * n, n)
            ),
        )
        for n in range(1, 7)
    ]
    names = [
        ("orders-producer", {"1": 3, "2": 2, "4": 1}, "apache-kafka-java 4.1.0", 140),
        ("billing-consumer-0", {"1": 1, "2": 1, "5": 1}, "apache-kafka-java 4.1.0", 90),
        ("billing-consumer-1", {"4": 1, "6": 1, "3": 1}, "apache-kafka-java 4.1.0", 55),
        ("etl", {"1": 2, "5": 1, "bootstrap": 1}, "librdkafka 2.11.1", 30),
        ("debezium", {"2": 1, "4": 1}, "apache-kafka-java 3.9.0", 18),
        ("kcat", {"bootstrap": 1}, "librdkafka 2.0.2", 0.4),
    ]
    clients = [
        client(
            name,
            to,
            address="127.0.0.1" if i < 4 else f"172.17.0.{i}",
            software=software,
            traffic=traffic(wave(rate, i), 14 if name == "etl" else 0, p99=wave(0.018, i)),
            asked=[asked("Produce", 812, 14 if name == "etl" else 0), asked("Metadata", 3)],
            addresses=[{"from": f"b{n}.prod.internal:9092", "to": f"localhost:{9092 + n}"} for n in range(1, 7)],
        )
        for i, (name, to, software, rate) in enumerate(names)
    ]
    apis = [
        {
            "node": str(n),
            "api": api,
            **traffic(wave(rate / n, n), 14 if n == 5 and api == "Produce" else 0, p99=wave(0.01 * n, n)),
        }
        for n in (1, 2, 4, 5, 6)
        for api, rate in (("Fetch", 140), ("Produce", 80), ("Heartbeat", 1), ("OffsetCommit", 0.4), ("Metadata", 0.1))
    ]
    groups = [
        {"group": "billing", "clients": ["billing-consumer-0", "billing-consumer-1"], "members": 2, "node": "2"},
        {"group": "connect-debezium", "clients": ["debezium"], "members": 1, "node": "5"},
    ]
    findings = [
        finding(
            node="3",
            title="A broker's name cannot be resolved",
            text="Broker 3 advertises `b3.prod.internal:9092`. The SSH server `bastion` cannot resolve this name.",
            check="`ssh bastion getent hosts b3.prod.internal` prints nothing.",
            advice="Tell kproxy where the broker is: `--map b3.prod.internal:9092=10.20.0.3:9092`. Or tell the server.",
        ),
        finding(
            fault="moved",
            severity="warning",
            node="5",
            client="etl at 127.0.0.1",
            title="A client writes to a broker that does not lead the partition",
            text="14 of 812 Produce requests in the last minute were answered with NOT_LEADER_OR_FOLLOWER.",
            why="The leaders of the partitions have moved, and the client learns of it only after this error.",
            check="The errors end within `metadata.max.age.ms`.",
            advice="Nothing, if they end. Otherwise update the client: older ones ask for metadata too seldom.",
        ),
    ]
    events = [
        event(1, "listening on 127.0.0.1:9092 for clients"),
        event(2, "the cluster MkU3OEVBNTcwNTJENDM2Qg has 6 brokers"),
        event(
            3,
            lost,
            "WARNING",
            meaning="kproxy cannot reach this broker; clients that need it wait.",
            fix="Look at the finding above.",
        ),
        event(4, "kproxy is ready, except for broker 3"),
        event(5, "client etl from 127.0.0.1: NOT_LEADER_OR_FOLLOWER (6) for Produce at broker 5", "WARNING"),
    ]
    one = cluster(
        name="prod",
        via=["ssh://ops@bastion.example"],
        bootstrap_servers=["b1.prod.internal:9092", "b2.prod.internal:9092"],
        sessions=18,
        nodes=nodes,
        clients=clients,
        apis=apis,
        groups=groups,
        bootstrap_sessions=2,
    )
    for each in findings:
        each["cluster"] = "prod"
    return snapshot(clusters=[one], findings=findings, events=events, time=time.time() + second)


def crowded(second: float = 0, brokers: int = 100, clients: int = 200, sessions: int = 1000) -> Snapshot:
    """Return a snapshot with many brokers, clients and sessions."""
    nodes = [
        node(
            n,
            local=f"localhost:{19093 + n}",
            traffic=traffic(50 + 40 * math.sin(n + second / 7), 3 if n % 25 == 0 else 0),
            sessions=sessions // brokers,
            **({"problem": "connection refused", "dial": None, "route": None} if n in (17, 60) else {}),
        )
        for n in range(1, brokers + 1)
    ]
    each = sessions // clients
    many = [
        client(
            f"service-{n:03}",
            {str((n * 7 + i * 13) % brokers + 1): 1 for i in range(each)},
            address=f"10.1.{n // 100}.{n % 100}",
            traffic=traffic(20 + 15 * math.sin(n + second / 5)),
        )
        for n in range(clients)
    ]
    apis = [
        {"node": str(n), "api": api, **traffic(30 + 20 * math.sin(n + second / 9))}
        for n in range(1, brokers + 1)
        for api in ("Fetch", "Produce", "Metadata")
    ]
    groups = [
        {"group": f"group-{n}", "clients": [f"service-{n:03}"], "members": 3, "node": str(n % brokers + 1)}
        for n in range(100)
    ]
    found = [
        finding(
            node=str(n),
            text=f"Broker {n} refuses the connection.",
            fault="refused",
            title="Nothing listens on the port",
        )
        for n in (17, 60)
    ]
    one = cluster(nodes=nodes, clients=many, apis=apis, groups=groups, sessions=sessions)
    events = [event(n, f"client service-{n:03} from 10.1.0.{n} connected") for n in range(100)]
    return snapshot(clusters=[one], findings=found, events=events, time=time.time() + second)


@contextmanager
def shown(browser: Browser, first: Snapshot) -> Iterator[LivePage]:
    """Open the page with this snapshot in the browser."""
    with LivePage() as live:
        live.show(first)
        try:
            browser.open(live.url)
            browser.wait_for("kproxyPage.updates > 0")
            yield live
        finally:
            browser.open("about:blank")


def update(browser: Browser, live: LivePage, snapshot: Snapshot) -> float:
    """Send a snapshot, wait until the page shows it, and return the milliseconds that the browser took."""
    live.show(snapshot)
    browser.wait_for(f"kproxyPage.time == {snapshot['time']!r}")
    return float(browser.js("kproxyPage.milliseconds"))
