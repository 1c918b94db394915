"""A team's whole move from Kafka 3.9.2 to 4.4.0, wave after wave: what there is besides clusters, kproxies and clients.

Clients log in with SCRAM on blue; kproxies swap that for other users with PLAIN on green. The wave of orders has
transactions, a query of Spark, and records with schema ids, whose registry is copied. The wave of clicks has an
application of Kafka Streams, and a producer that goes round the kproxies.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, ResourcePatternType, ResourceType  # type: ignore[attr-defined]  # its types lack them

from kproxy.dev.devcluster import DEFAULT_VERSION, DevCluster
from tests.harness.clusters.twologins import NAMES, OLD, SECURITY, allow, decisions, import_users, swapping, two_logins
from tests.harness.migration.carried import offsets_in_log
from tests.harness.migration.switchdriver import DONE, STOPPED
from tests.harness.migration.switched import BLUE, GREEN, Switched
from tests.harness.process import PATIENCE_S, wait_until
from tests.soak.moveschemas import AvroWriter, Registries
from tests.soak.switchapps import App, Spark, Streams
from tests.soak.switchclients import CLASSIC, COMMITTED, PARTITIONS, Kind
from tests.soak.switchjudged import the_same
from tests.soak.switchsite import Site

ORDERS, CLICKS = WAVES = ("orders", "clicks")
VERSIONS = ("3.9.2", DEFAULT_VERSION)
_AVRO, _ROUND = "soak-orders-avro", "soak-clicks-round"
_SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}


def _java_login(user: str) -> dict[str, str]:
    module = f"{SECURITY}.scram.ScramLoginModule"
    return _SASL | {"sasl.jaas.config": f'{module} required username="{user}" password="{OLD[user]}";'}


def _login(user: str) -> dict[str, str]:
    """Return the login of a librdkafka client."""
    return _SASL | {"sasl.username": user, "sasl.password": OLD[user]}


_KINDS = (
    Kind(
        "orders producer, transactional", 0, "java", "transact", _java_login("alice") | {"transactional.id": "orders"},
        wave=ORDERS,
    ),
    Kind(
        "orders consumer, classic", 1, "java", "consume", _java_login("alice") | CLASSIC | COMMITTED,
        "orders producer, transactional", ORDERS,
    ),
    Kind(
        "clicks producer, idempotent", 1, "confluent", "produce", _login("bob") | {"enable.idempotence": "true"},
        wave=CLICKS,
    ),
    Kind(
        "clicks consumer, classic", 2, "confluent", "consume", _login("bob") | CLASSIC, "clicks producer, idempotent",
        CLICKS,
    ),
)  # fmt: skip
_APPS: Mapping[str, Callable[..., App]] = {
    "Spark, structured streaming": partial(
        Spark, reads="orders producer, transactional", client="orders-query", login=_java_login("alice")
    ),
    "Kafka Streams, exactly_once_v2": partial(
        Streams, reads="clicks producer, idempotent", id="soak-clicks-counter", login=_java_login("bob")
    ),
}
# Who may use what begins so.
_RIGHTS = (
    ("alice", ResourceType.TOPIC, "soak-orders-producer"), ("alice", ResourceType.GROUP, "orders-"),
    ("alice", ResourceType.TRANSACTIONAL_ID, "orders"), ("carol", ResourceType.TOPIC, _AVRO),
    ("bob", ResourceType.TOPIC, "soak-clicks-"), ("bob", ResourceType.GROUP, "clicks-"),
    ("bob", ResourceType.GROUP, "soak-clicks-"), ("bob", ResourceType.TRANSACTIONAL_ID, "soak-clicks-"),
)  # fmt: skip
_WRITERS = {_AVRO: "carol", "soak-orders-producer": "alice", "soak-clicks-producer": "bob"}


class WholeMove(Site):
    """The site, with all that. One broker on each side, so that one that is killed is missed."""

    prepares_again = False

    def __init__(self, directory: Path, chance: Random, held: ExitStack) -> None:
        self.registries = held.enter_context(Registries())
        super().__init__(directory, chance, held, _APPS, kinds=_KINDS, versions=VERSIONS, brokers=1)
        for kproxy in self.kproxies:
            wait_until(partial(_knows_both, kproxy), "both upstreams are known")
        for topic in (_AVRO, _ROUND):
            self.make_topic(topic)
        login = {"bootstrap.servers": self.kproxies[1].bootstrap, "client.id": "orders-avro", **_login("carol")}
        self.avro = held.enter_context(AvroWriter(_AVRO, login, self.registries, partial(self.active_of, ORDERS)))
        self._rounds = 0  # records that went round

    def _start_sides(
        self, held: ExitStack, versions: tuple[str, str], properties: Mapping[str, str]
    ) -> Mapping[str, DevCluster]:
        sides = held.enter_context(two_logins(versions, **properties))
        for user, kind, name in _RIGHTS:
            allow(sides[BLUE], user, name, kind, AclOperation.ALL, ResourcePatternType.PREFIXED)
        self._users = import_users(sides[BLUE], self.directory, *NAMES)
        return sides

    def _make_kproxy(self, directory: Path) -> Switched:
        return swapping(self.sides, self._users, directory)

    def _migration(self) -> dict[str, Any]:
        ids = {wave: [kind.id for kind in _KINDS if kind.reads and kind.wave == wave] for wave in WAVES}
        ids[CLICKS].append("soak-clicks-counter")
        return {
            **super()._migration(),
            "source": {"bootstrap-servers": self.direct[BLUE]},
            "target": {"bootstrap-servers": self.direct[GREEN]},
            "users": dict(NAMES),
            "schemas": {"source": self.registries.url(BLUE), "target": self.registries.url(GREEN)},
            "waves": {
                wave: {"clients": [f"{wave}-*", f"soak-{wave}-*"], "groups": ids[wave], "topics": [f"soak-{wave}-*"]}
                for wave in WAVES
            },
        }

    def wait_flowing(self, *, brings_positions: bool = True) -> None:
        super().wait_flowing(brings_positions=brings_positions)
        self.avro.wait_more()

    # Who goes round

    def observe(self) -> None:
        """Observe the clients while a producer goes round the kproxies. It must be named, and no other one."""
        driver = self._driver("observe", "--for", "10m", "--json")
        wait_until(lambda: any("observing at" in line for line in driver.lines), "it observes")
        self.write_round()
        self.wait_flowing()
        driver.process.send_signal(signal.SIGINT)
        assert driver.wait() == 1, driver.lines
        result = json.loads("\n".join(driver.lines[driver.lines.index("{") : driver.lines.index("}") + 1]))
        errors = [finding["subject"] for finding in result["findings"] if finding["severity"] == "error"]
        assert errors == [f"topic {_ROUND}"], result["findings"]

    def write_round(self, count: int = 20) -> None:
        """Write to blue and past all kproxies."""
        producer = Producer({"bootstrap.servers": self.direct[BLUE], "client.id": "round", "enable.idempotence": True})
        for _ in range(count):
            producer.produce(_ROUND, str(self._rounds).encode(), partition=0)
            self._rounds += 1
        assert producer.flush(PATIENCE_S) == 0

    def check_named(self, severity: str, *words: str) -> None:
        """Run a command that must name this producer; as an error, it stops."""
        _, driver = self.command(*words, codes=(STOPPED,) if severity == "error" else (DONE,))
        named = [
            line for line in driver.lines if line.startswith(f"{severity}: ") and "goes round the kproxies" in line
        ]
        assert len(named) == 1, driver.lines
        assert named[0].startswith(f"{severity}: topic {_ROUND}: "), named

    @property
    def allowed(self) -> Sequence[str]:
        """The options with which it stops nothing."""
        return "--allow-unseen", _ROUND

    # The end

    def judge(self) -> list[str]:
        self.avro.end()
        problems = super().judge()
        problems += [
            f"records with schema ids: {text}" for text in self.avro.judge(self.direct, self.active_of(ORDERS))
        ]
        logs = {name: offsets_in_log(bootstrap, _ROUND, PARTITIONS) for name, bootstrap in self.direct.items()}
        problems += [f"records that went round: {text}" for text in the_same(logs, self.active_of(CLICKS))]
        if [number for _, number in logs[BLUE][0]] != [*range(self._rounds)]:
            problems.append(f"records that went round: {self._rounds} were written, and there are {logs[BLUE]}")
        self.records += self.avro.records + self._rounds
        return problems + list(self.registries.differences()) + self._wrong_principals()

    def _wrong_principals(self) -> list[str]:
        """Return who wrote to topics of others, by each authorizer's log since its broker's start."""
        names = {BLUE: {user: user for user in NAMES}, GREEN: NAMES}
        return [
            f"{one.principal} wrote to {one.name} on {side}: {'allowed' if one.allowed else 'denied'}"
            for side, cluster in self.sides.items()
            for one in set(decisions(cluster))
            for topic, user in _WRITERS.items()
            if one.request == "Produce" and one.name.startswith(topic)
            and (one.principal not in (f"User:{names[side][user]}", "User:ANONYMOUS") or not one.allowed)
        ]  # fmt: skip


def _knows_both(kproxy: Switched) -> bool:
    upstreams = kproxy.seen()["upstreams"].values()
    return all(upstream["cluster_id"] and not upstream["problem"] for upstream in upstreams)
