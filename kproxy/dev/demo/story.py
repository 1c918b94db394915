"""The story that `kproxy demo` tells."""

from __future__ import annotations

import importlib.util
import os
import shlex
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from kproxy.base.errors import ConfigError, KproxyError, UpstreamError
from kproxy.base.format import format_duration
from kproxy.base.packages import install_command
from kproxy.dev.devcluster import jars
from kproxy.dev.devcluster.cluster import DevCluster
from kproxy.dev.devcluster.interrupts import ignore_ctrl_c, terminated_like_ctrl_c
from kproxy.dev.devcluster.jars import DEFAULT_VERSION
from kproxy.dev.devcluster.screen import Screen
from kproxy.net.blocking import resolve

if TYPE_CHECKING:
    from kproxy.dev.demo.proxy import ProxyProcess

_BROKERS = 3
_RECORDS = 5000
_SINGLES = 100
_LOOKUP_S = 5.0


def run_demo(*, once: bool) -> int:
    """Tell the story; then, unless `once`, keep everything running until Ctrl-C.

    Returns the exit code: 0 at the end, 1 if something in the story failed (with a message), 130 if Ctrl-C came before
    its end. Raises ConfigError if Java, Maven or the demo's client is missing. No process is left running in any case.
    """
    _check()
    screen = Screen(Console(highlight=False))
    story = _Story(screen)
    with terminated_like_ctrl_c():
        try:
            story.tell()
            if not once:
                story.stay()
            return 0
        except KeyboardInterrupt:
            return 0 if story.complete else 130
        except ConfigError:
            raise
        except (KproxyError, OSError, subprocess.SubprocessError) as error:
            screen.bad(f"The demo failed: {_one_line(error)}")
            return 1
        finally:
            ignore_ctrl_c()
            story.close()


def _check() -> None:
    """Before anything is fetched or started. Raises ConfigError with all that is missing."""
    problems: list[str] = []
    if importlib.util.find_spec("confluent_kafka") is None:
        problems.append(f"the demo needs the client confluent-kafka: {install_command('confluent-kafka')}")
    try:
        jars.check_requirements()
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(*problems)


class _Story:
    """The parts of the story, in order, and what must be stopped after it."""

    def __init__(self, screen: Screen) -> None:
        self.complete = False
        self._screen = screen
        self._cluster = DevCluster(_BROKERS, progress=screen.progress)
        self._proxy: ProxyProcess | None = None

    def tell(self) -> None:
        self._screen.title("kproxy demo: a Kafka cluster whose broker names you cannot resolve")
        self._start_cluster()
        self._fail_without_kproxy()
        proxy = self._start_kproxy()
        self._work_through_kproxy(proxy)
        self._use_java(proxy)
        self.complete = True

    def stay(self) -> None:
        """Say how to connect and keep running; raises UpstreamError if kproxy ends."""
        assert self._proxy is not None
        listen, admin, screen = self._proxy.listen, self._proxy.admin, self._screen
        screen.step("Your turn: everything keeps running until you press Ctrl-C")
        screen.say("Any Kafka client works, without settings of its own. In another terminal:")
        screen.command(f"kcat -b {listen} -L")
        screen.command(f"kafka-console-consumer.sh --bootstrap-server {listen} --topic demo --from-beginning")
        screen.command(f"{_python()} -m kafka.consumer -b {listen} -t demo -C auto_offset_reset=earliest")
        screen.say(f"kproxy's view:  http://{admin}/status   http://{admin}/metrics")
        screen.say(f"Logs of kproxy and the brokers:  {self._cluster.directory}")
        self._proxy.wait()

    def close(self) -> None:
        """End kproxy, then the brokers."""
        if self._cluster.started:
            self._screen.say("stopping kproxy and the brokers")
        try:
            if self._proxy is not None:
                self._proxy.stop()
        finally:
            self._cluster.stop()

    def _start_cluster(self) -> None:
        screen = self._screen
        screen.step(f"A real cluster: Apache Kafka {DEFAULT_VERSION}, on this machine")
        started = time.monotonic()
        with screen.waiting("looking for Java and Kafka"):
            self._cluster.start()
        advertised, dial = self._cluster.advertised, self._cluster.dial
        screen.good(f"{len(dial)} brokers are up, after {format_duration(time.monotonic() - started)}")
        rows = [(str(node), str(name), _resolves(name.host), str(dial[node])) for node, name in advertised.items()]
        screen.table(("broker", "tells clients to use", "found by DNS", "listens on"), rows)
        screen.say(
            "Docker, Kubernetes, a VPN or an SSH tunnel cause the same: you reach a first address, but then "
            "Kafka sends its clients to names that only the brokers' own network knows."
        )

    def _fail_without_kproxy(self) -> None:
        from kproxy.dev.demo import client

        screen, bootstrap = self._screen, self._cluster.bootstrap
        screen.step("A real client without kproxy")
        screen.say(f"{client.CLIENT} tries to create a topic, with these addresses, which do accept:")
        screen.output([f"bootstrap.servers={bootstrap}"])
        with screen.waiting("waiting for the client to give up"):
            failure = client.fail_directly(bootstrap)
        if failure is None:
            raise UpstreamError("other", "the client works without kproxy: the brokers' names resolve here")
        screen.good(f"the first address answers, and names {failure.brokers} brokers")
        for complaint in failure.complaints:
            screen.bad(complaint)
        screen.bad(f"after {format_duration(failure.seconds)}: {failure.outcome}")

    def _start_kproxy(self) -> ProxyProcess:
        from kproxy.dev.demo.proxy import ProxyProcess

        screen = self._screen
        proxy = self._proxy = ProxyProcess(self._cluster.bootstrap, self._cluster.directory)
        screen.step("kproxy beside the client, with no change to brokers, client or /etc/hosts")
        if not proxy.is_default:
            screen.say("(Its usual ports 19092 and 19091 are not both free here, so it gets others.)")
        screen.command(proxy.shown)
        with screen.waiting("waiting for kproxy"):
            seconds = proxy.start()
        screen.good(f"ready after {format_duration(seconds)}; clients use {proxy.listen}")
        return proxy

    def _work_through_kproxy(self, proxy: ProxyProcess) -> None:
        from kproxy.dev.demo import client

        screen, bootstrap = self._screen, str(proxy.listen)
        screen.step(f"The same client, with bootstrap.servers={bootstrap}")
        with screen.waiting("creating a topic"):
            client.create_topic(bootstrap, _BROKERS)
        screen.good(f"created topic 'demo': {client.PARTITIONS} partitions, {_BROKERS} replicas each")
        with screen.waiting("producing"):
            produced = client.produce(bootstrap, _SINGLES, _RECORDS)
        median = format_duration(produced.one_by_one)
        screen.good(f"produced {_SINGLES} records one by one, each acknowledged after {median} (median)")
        screen.good(f"produced {_RECORDS:,} at once, {produced.rate:,.0f} per second (idempotent, acks=all)")
        with screen.waiting("consuming as a group"):
            consumed = client.consume(bootstrap, _SINGLES + _RECORDS)
        screen.good(f"joined a group in {format_duration(consumed.joining)}, then read {consumed.rate:,.0f} per second")
        screen.good(f"all {consumed.records:,} records arrived, each exactly once")
        self._show_metadata(bootstrap)

    def _show_metadata(self, bootstrap: str) -> None:
        from kproxy.dev.demo import client

        screen = self._screen
        metadata = client.metadata(bootstrap)
        own = {name.host for name in self._cluster.advertised.values()}
        leaked = [broker for broker in metadata.brokers.values() if broker.host in own]
        if leaked or len(metadata.brokers) != len(own):
            raise UpstreamError("other", f"kproxy told the client of {metadata.brokers}")
        screen.say("What it sees of the cluster now, as kcat -L shows it:")
        lines = [f"broker {broker.id} at {broker.host}:{broker.port}" for _, broker in sorted(metadata.brokers.items())]
        topic = metadata.topics[client.TOPIC]
        lines.append(f'topic "{topic.topic}" with {len(topic.partitions)} partitions:')
        for number, partition in sorted(topic.partitions.items()):
            replicas, in_sync = (",".join(map(str, ids)) for ids in (partition.replicas, partition.isrs))
            lines.append(f"  partition {number}, leader {partition.leader}, replicas: {replicas}, isrs: {in_sync}")
        screen.output(lines)

    def _use_java(self, proxy: ProxyProcess) -> None:
        screen = self._screen
        screen.step("Another client: one of Kafka's own tools, in Java")
        args = ("--bootstrap-server", str(proxy.listen), "--describe", "--group", "demo")
        screen.command(shlex.join(["kafka-consumer-groups.sh", *args]))
        with screen.waiting("waiting for Java"):
            done = self._cluster.tool("kafka-consumer-groups", *args)
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        if done.returncode != 0 or not any(line.startswith("demo") for line in lines):
            output = (done.stderr.strip() or done.stdout.strip() or "it printed nothing").splitlines()
            raise UpstreamError("other", f"kafka-consumer-groups ended with code {done.returncode}: {output[0]}")
        # Its last columns are about members, and the group has none now; without them it fits on a screen.
        screen.output(_aligned([line.split()[:6] for line in lines]))
        screen.good("so two unrelated clients work in the same way")


def _resolves(host: str) -> str:
    """Return the resolver's answer for a name in a few words, within a limited time."""
    results: list[str] = []

    def look_up() -> None:
        try:
            results.append(resolve(host)[0])
        except OSError:
            results.append("nothing")

    thread = threading.Thread(target=look_up, daemon=True)
    thread.start()
    thread.join(_LOOKUP_S)
    return results[0] if results else "nothing (no answer)"


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=False)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)) for row in rows]


def _python() -> str:
    """Return the interpreter that has kproxy's libraries, as a user would type it here."""
    relative = os.path.relpath(sys.executable)
    return shlex.quote(relative if not relative.startswith("..") else sys.executable)


def _one_line(error: Exception) -> str:
    if isinstance(error, subprocess.TimeoutExpired):
        return f"{Path(error.cmd[0]).name} took more than {error.timeout:.0f} s"
    return " ".join(str(error).split()) or type(error).__name__
