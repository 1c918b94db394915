"""`kproxy devcluster`: a cluster to try things with, which runs until Ctrl-C.

Every broker has three listeners: plaintext, TLS, and TLS with a login.
"""

from __future__ import annotations

import secrets
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kproxy.base.address import Address
from kproxy.base.errors import ConfigError
from kproxy.base.watchdog import Watchdog
from kproxy.dev.devcluster import certificates, jars
from kproxy.dev.devcluster.cluster import DevCluster
from kproxy.dev.devcluster.interrupts import ignore_ctrl_c, terminated_like_ctrl_c
from kproxy.dev.devcluster.properties import CLIENT, ListenerSpec
from kproxy.dev.devcluster.screen import Screen
from kproxy.net.freeports import HOST

USER = "alice"
_TLS, _SASL = "TLS", "SASL"
_LOOK_AGAIN_S = 0.25
ACCEPT_NEW_CLUSTER = ("--accept-new-cluster-after", "10s")
"""The option with which a kproxy serves a later test cluster that has the same ports, too."""


def run_trial_cluster(brokers: int, advertise: str, screen: Screen) -> int:
    """Start the cluster, explain how to use it, and run until Ctrl-C, or until no broker is left.

    `advertise` is a host, in which `{id}` stands for the node id. Returns the exit code. Raises ConfigError for missing
    programs and invalid arguments, UpstreamError if the cluster does not start; no process is left then.
    """
    names = _names(brokers, advertise)
    jars.check_requirements()
    with terminated_like_ctrl_c(), _directory() as directory:
        stand = TrialCluster(brokers, advertise, names, directory, screen)
        try:
            stand.start()
            stand.explain()
            return stand.wait()
        except KeyboardInterrupt:
            return 0 if stand.explained else 130
        finally:
            ignore_ctrl_c()
            stand.close()


def _names(brokers: int, advertise: str) -> list[str]:
    """Return the host of each broker. Raises ConfigError."""
    try:
        hosts = [Address.parse(advertise.format(id=node), default_port=9092) for node in range(1, brokers + 1)]
    except (ValueError, LookupError, AttributeError):
        hosts = []
    if not hosts or any(address.port != 9092 or address.is_wildcard or not address.host.isascii() for address in hosts):
        raise ConfigError(
            "--advertise: not a host; allowed: NAME, in which {id} stands for the node id, without a port"
        )
    return [address.host for address in hosts]


@contextmanager
def _directory() -> Iterator[Path]:
    """Create a directory that is removed afterwards, however this process ends."""
    directory = Path(tempfile.mkdtemp(prefix="kproxy-devcluster-"))
    with Watchdog() as watchdog:
        watchdog.remove(directory)
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)


class TrialCluster:
    """The cluster, its certificates and its user."""

    def __init__(self, brokers: int, advertise: str, names: list[str], directory: Path, screen: Screen) -> None:
        self.explained = False
        self._screen = screen
        self._ca, store = certificates.write_certificates(directory, [*names, HOST, "localhost"])
        password = secrets.token_urlsafe(12)
        self._password = directory / "password"
        self._password.touch(mode=0o600)
        self._password.write_text(password + "\n")
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        properties = {
            "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl.plain.sasl.jaas.config": f'{module} required user_{USER}="{password}";',
        }
        for listener in (_TLS, _SASL):
            properties[f"listener.name.{listener.lower()}.ssl.keystore.type"] = "PEM"
            properties[f"listener.name.{listener.lower()}.ssl.keystore.location"] = str(store)
        host = f"[{advertise}]" if ":" in advertise.strip("[]") else advertise
        template = f"{host}:{{port}}"
        more = (ListenerSpec(_TLS, template, "SSL"), ListenerSpec(_SASL, template, "SASL_SSL"))
        self._cluster = DevCluster(
            brokers,
            advertised=template,
            extra_listeners=more,
            properties=properties,
            directory=directory,
            progress=screen.progress,
        )

    def start(self) -> None:
        self._screen.title("kproxy devcluster: Apache Kafka on this machine, for as long as this runs")
        with self._screen.waiting("looking for Java and Kafka"):
            self._cluster.start()
        for node, advertised in self._cluster.advertised.items():
            self._screen.good(f"broker {node} is up, and says that it is {advertised.host}")

    def explain(self) -> None:
        """Print how to use each listener."""
        screen, tls = self._screen, ["--tls", "--tls-ca", str(self._ca)]
        login = ["--sasl", "PLAIN", "--sasl-username", USER, "--sasl-password-file", str(self._password)]
        screen.say(f"CA: {self._ca}   user: {USER}   password: {self._password.read_text().strip()}")
        ways: tuple[tuple[str, str, list[str]], ...] = (
            ("PLAINTEXT", CLIENT, []),
            ("SSL", _TLS, tls),
            ("SASL_SSL (PLAIN)", _SASL, [*tls, *login]),
        )
        for what, listener, flags in ways:
            bootstrap = ",".join(str(address) for address in self._cluster.listener(listener).values())
            screen.step(f"{what}: {bootstrap}")
            screen.command(shlex.join(["kproxy", "run", "-b", bootstrap, *ACCEPT_NEW_CLUSTER, *flags]))
        screen.say("Each kproxy serves clients at 127.0.0.1:19092, without TLS and login. Ctrl-C ends the cluster.")
        self.explained = True

    def wait(self) -> int:
        """Print which node ends, until none is left, and return the exit code."""
        while self._cluster.running:
            for ended in self._cluster.collect_exits():
                self._screen.bad(str(ended))
            time.sleep(_LOOK_AGAIN_S)
        for ended in self._cluster.collect_exits():
            self._screen.bad(str(ended))
        self._screen.bad("no broker is left")
        return 1

    def close(self) -> None:
        if self._cluster.started:
            self._screen.say("stopping the brokers")
        self._cluster.stop()
