"""A move that changes who the clients are: from SCRAM on Kafka 3.9.2 to PLAIN with other names on 4.4.0, under load."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourcePatternType, ResourceType

from kproxy.dev.devcluster import DEFAULT_VERSION, DevCluster
from kproxy.dev.devcluster.tools import Programs
from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.clusters.endpoints import ClusterEndpoints
from kproxy.migrate.clusters.inventory_reader import read_access
from kproxy.migrate.prepare.target_admin import TargetAdmin
from kproxy.migrate.spec.migration import GroupSelection, Migration, TopicSelection
from kproxy.migrate.spec.switch_section import KproxySelection, SwitchSection
from kproxy.migrate.switch.expected_users import named_users
from kproxy.migrate.switch.fleet import open_fleet
from kproxy.migrate.switch.operations import roll_back_clients, switch_clients
from kproxy.migrate.switch.report import SwitchResult
from kproxy.migrate.switch.resumption import resume_drive
from kproxy.migrate.switch.reverse_copy import ReverseCopy
from kproxy.migrate.switch.switch_run import SwitchContext
from kproxy.migrate.switch.user_logins import check_users
from kproxy.proxy.switching.twophase import CoordinatorOutcome
from tests.harness.clients.going import Going, java, python
from tests.harness.clients.spark import needs_spark
from tests.harness.clusters.twologins import (
    KEYS,
    NAMES,
    OLD,
    SECRETS,
    allow,
    decisions,
    import_users,
    swapping,
    two_logins,
    users,
)
from tests.harness.migration.dying import Died, dying_undecided
from tests.harness.migration.moving import prepare, rows, topics
from tests.harness.migration.switched import BLUE, GREEN, TOKEN, Switched
from tests.harness.process import wait_until
from tests.harness.topics import unique

pytestmark = [
    pytest.mark.integration,
    needs_spark,
    pytest.mark.timeout(3000),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    # kafka-python reads its message definitions in an old way.
    pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning"),
]

PARTITIONS = 2
QUOTA = 50_000_000.0
# Switches and rollbacks of the comparison, each.
_ROUNDS = int(os.environ.get("HELD_ROUNDS", "5"))
_SETTINGS = {
    "group_initial_rebalance_delay_ms": "0",
    "auto_create_topics_enable": "false",
    "transaction_state_log_num_partitions": "4",
    "offsets_topic_num_partitions": "4",
}


@pytest.fixture(scope="module")
def clusters() -> Iterator[Mapping[str, DevCluster]]:
    with two_logins(("3.9.2", DEFAULT_VERSION), **_SETTINGS) as clusters:
        yield clusters


@dataclass
class Move:
    """The kproxies, the clients, and the migration. `held`: the seconds of each hold, and `worked` those of its
    tasks."""

    spark: Any
    clusters: Mapping[str, DevCluster]
    kproxies: Sequence[Switched]
    directory: Path
    prefix: str
    swaps: bool
    stack: ExitStack
    clients: dict[str, Going] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    held: list[float] = field(default_factory=list)
    worked: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        token = self.directory / "token"
        token.touch(0o600)
        token.write_text(TOKEN)
        kproxies = KproxySelection(tuple(kproxy.admin for kproxy in self.kproxies))
        section = SwitchSection(kproxies, GREEN, token_file=token, hold_seconds=25)
        source, target = (self.clusters[name].direct_bootstrap for name in (BLUE, GREEN))
        self.migration = Migration(
            {"bootstrap-servers": source}, {"bootstrap-servers": target}, unique("mv"),
            topics=TopicSelection((f"{self.prefix}*",)), groups=GroupSelection((f"{self.prefix}*",)),
            switch=section, users=NAMES if self.swaps else {},
        )  # fmt: skip
        self.endpoints = ClusterEndpoints.from_addresses(source, target)
        self.fleet = self.stack.enter_context(open_fleet(section))
        self.context = SwitchContext(
            self.spark, self.migration, self.endpoints, self.fleet, section, self.said.append, self._show
        )

    def _show(self, findings: Any) -> None:
        self.said += [f"{one.severity}: {one.subject}: {one.text}" for one in findings]

    def topic(self, user: str) -> str:
        return f"{self.prefix}-{user}"

    def prepare(self) -> None:
        prepare(self.migration, self.endpoints, self.said.append)

    def start(self) -> None:
        """alice and bob write idempotently, carol does not; carol reads what alice writes."""
        programs = Programs.of(DEFAULT_VERSION)
        for user in ("alice", "bob"):
            words = ["produce", self.topic(user), str(PARTITIONS), "20"]
            properties = {**self._login(user, 0), "enable.idempotence": "true"}
            self.clients[user] = self.stack.enter_context(
                java(programs, words, properties, self.directory / f"{user}.log")
            )
        for name, words, properties in (
            ("carol", ["produce", self.topic("carol"), str(PARTITIONS), "20"], {"acks": "all"}),
            ("reader", ["consume", self.topic("alice")], {"group.id": f"{self.prefix}-readers"}),
        ):
            more = {"auto.offset.reset": "earliest", "session.timeout.ms": "6000"} if name == "reader" else {}
            log = self.directory / f"{name}.log"
            self.clients[name] = self.stack.enter_context(
                python("confluent", words, {**self._login("carol", 1), **properties, **more}, log)
            )

    def _login(self, user: str, number: int) -> dict[str, str]:
        kproxy = self.kproxies[number % len(self.kproxies)]
        address = {"bootstrap.servers": kproxy.bootstrap, "client.id": f"{self.prefix}-{user}-{number}"}
        if not self.swaps:
            return address
        sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}
        if number:
            return {**address, **sasl, "sasl.username": user, "sasl.password": OLD[user]}
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        return {**address, **sasl, "sasl.jaas.config": f'{module} required username="{user}" password="{OLD[user]}";'}

    def wait_flowing(self) -> None:
        for name, client in self.clients.items():
            client.wait_more("got" if name == "reader" else "acked", 30, 120)

    def switch(self, *, reversible: bool = True) -> None:
        self.prepare()
        options: dict[str, Any] = {"dry_run": False, "reversible": reversible, "until": ReverseCopy.close}
        self._do(partial(switch_clients, self.context, lambda _: None, **options))

    def resume(self) -> CoordinatorOutcome:
        """Continue as another driver."""
        self.said.clear()
        section = self.context.section
        result = resume_drive(self.endpoints.target, self.migration, self.fleet, section, self.said.append, abort=False)
        assert result is not None
        assert result.entry.ended
        return result.end

    def sides(self) -> set[str]:
        assert {kproxy.seen()["phase"] for kproxy in self.kproxies} == {"serving"}
        return {kproxy.seen()["active"] for kproxy in self.kproxies}

    def log_in_bob(self, key: str) -> None:
        """Change what kproxies use for bob at green, and wait until all of them do."""
        users("login", self.directory / "users.yaml", "bob", GREEN, "--username", "sa-4712", stdin=key)
        bob = [user for user in named_users(self.migration, {"bob"}, back=False) if user.name == "bob"]

        def is_used() -> bool:
            findings = list(check_users(self.fleet, bob, GREEN))
            refused = sum(str(finding.severity) == "error" for finding in findings)
            return (
                refused == 0
                if key == KEYS["sa-4712"]
                else all(
                    any(kproxy.admin in str(finding) for finding in findings if str(finding.severity) == "error")
                    for kproxy in self.kproxies
                )
            )

        wait_until(is_used, "all kproxies have read the users file again", 120)

    def roll_back(self) -> None:
        self._do(partial(roll_back_clients, self.context, dry_run=False))

    def _do(self, run: Callable[[], SwitchResult]) -> None:
        """Switch or roll back; beside other work, the rehearsal may take longer than a hold may: then once more."""
        for _ in range(5):
            result = run()
            if "too long for a hold" not in result.message:
                break
        assert result.drive_result is not None, [line for line in self.said if line.startswith("error")]
        assert result.drive_result.end is CoordinatorOutcome.RELEASED, result.drive_result.reasons
        assert result.drive_result.held_seconds is not None
        assert result.timings is not None
        self.held.append(result.drive_result.held_seconds)
        self.worked.append(result.timings.total)

    def end(self) -> None:
        for name in ("alice", "bob", "carol"):
            self.clients[name].end()

    def judge(self, active: str) -> None:
        """Nothing is lost, and what is written idempotently is there once. No client has failed."""
        bootstrap = self.clusters[active].direct_bootstrap
        found = {
            user: [int(row[2] or b"-1") for n in range(PARTITIONS) for row in rows(bootstrap, self.topic(user), n)]
            for user in NAMES
        }
        acked = {user: [int(line[0]) for line in self.clients[user].said("acked")] for user in NAMES}
        for user in ("alice", "bob"):
            assert sorted(found[user]) == sorted(acked[user])
        assert set(found["carol"]) == set(acked["carol"])
        for client in self.clients.values():
            assert not client.said("failed") + client.said("fatal") + client.said("died"), client.lines[-5:]
        reader, wanted = self.clients["reader"], set(acked["alice"])
        wait_until(lambda: {int(line[2]) for line in reader.said("got")} == wanted, "carol has read all", 120)


@pytest.fixture(params=["swapped", pytest.param("plain", marks=pytest.mark.matrix)])
def move(
    request: pytest.FixtureRequest, clusters: Mapping[str, DevCluster], spark: Any, tmp_path: Path
) -> Iterator[Move]:
    """`plain`: the same without logins, for comparison."""
    with open_move(clusters, spark, tmp_path, swaps=request.param == "swapped") as made:
        yield made


@contextmanager
def open_move(clusters: Mapping[str, DevCluster], spark: Any, directory: Path, *, swaps: bool) -> Iterator[Move]:
    """Make the topics and users, and start the kproxies, which swap logins or do not."""
    prefix, blue = unique("move"), clusters[BLUE]
    directory.mkdir(exist_ok=True)
    topics(blue.direct_bootstrap, {f"{prefix}-{user}": PARTITIONS for user in OLD}, 1)
    for user in OLD:
        allow(blue, user, f"{prefix}-{user}")
    allow(blue, "bob", f"{prefix}-bob", ResourceType.TRANSACTIONAL_ID, pattern=ResourcePatternType.PREFIXED)
    allow(blue, "carol", f"{prefix}-alice", operation=AclOperation.READ)
    allow(blue, "carol", prefix, ResourceType.GROUP, AclOperation.READ, ResourcePatternType.PREFIXED)
    file = import_users(blue, directory, *NAMES)
    with ExitStack() as stack:
        if swaps:
            kproxies = [swapping(clusters, file, directory / name) for name in ("one", "two")]
        else:
            direct = [clusters[name].direct_bootstrap for name in (BLUE, GREEN)]
            kproxies = [Switched(directory / name, *direct) for name in ("one", "two")]
        for kproxy in kproxies:
            stack.enter_context(kproxy)
            wait_until(lambda kproxy=kproxy: all_ids(kproxy), "both upstreams are known")
        yield Move(spark, clusters, kproxies, directory, prefix, swaps, stack)


def all_ids(kproxy: Switched) -> bool:
    return all(upstream["cluster_id"] and not upstream["problem"] for upstream in kproxy.seen()["upstreams"].values())


def set_quota(cluster: DevCluster, user: str) -> None:
    with Admin(cluster.direct_bootstrap) as admin:
        assert TargetAdmin(admin, 1).set_quotas({(("user", user),): {"producer_byte_rate": QUOTA}}) == [""]


@pytest.mark.parametrize("rounds", [1, pytest.param(10, marks=pytest.mark.matrix)])
def test_a_move_there_and_back(move: Move, rounds: int, figures: list[str]) -> None:
    """Each round is a switch and a rollback; a last switch stays."""
    blue, green = (move.clusters[name] for name in (BLUE, GREEN))
    set_quota(blue, "alice")
    move.prepare()
    if move.swaps:
        check_prepared(move)
    move.start()
    for _ in range(rounds):
        for turn in (move.switch, move.roll_back):
            move.wait_flowing()
            turn()
    move.wait_flowing()
    move.end()
    move.judge(BLUE)
    figures.append(
        f"move, {'logins swapped' if move.swaps else 'without logins'}: {len(move.held)} switches and rollbacks, writes"
        f" held {statistics.median(move.held):.1f} s (median), {max(move.held):.1f} s at most;"
        f" {sum(len(move.clients[user].said('acked')) for user in NAMES)} records"
    )
    if not move.swaps:
        return
    assert_principals(blue, {user: user for user in OLD}, move.prefix)
    assert_principals(green, NAMES, move.prefix)
    notes = [line for line in move.said if "logged in at green for alice (sa-4711), bob (sa-4712), carol" in line]
    assert len(notes) >= rounds  # a rehearsal may be repeated
    assert "allow them each right that was tried" in notes[0]
    assert [line for line in move.said if "blue: clients log in there themselves" in line]
    shown = [*move.said, *(kproxy.log for kproxy in move.kproxies)]
    assert not [secret for secret in SECRETS for text in shown if secret in text]


@pytest.mark.matrix
def test_holds_with_logins_and_without_in_turn(
    clusters: Mapping[str, DevCluster], spark: Any, tmp_path: Path, figures: list[str]
) -> None:
    """The figures are for docs/logins.md: both moves have the same clusters, clients and load. No time is asserted."""
    with (
        open_move(clusters, spark, tmp_path / "swapped", swaps=True) as swapped,
        open_move(clusters, spark, tmp_path / "plain", swaps=False) as plain,
    ):
        moves = {"logins swapped": swapped, "without logins": plain}
        for move in moves.values():
            move.prepare()
            move.start()
        for _ in range(_ROUNDS):
            for turn in (Move.switch, Move.roll_back):
                for name, move in moves.items():
                    move.wait_flowing()
                    turn(move)
                    figures.append(f"{name}: held {move.held[-1]:.2f} s, of which work {move.worked[-1]:.2f} s")
        for move in moves.values():
            move.wait_flowing()
            move.end()
            move.judge(BLUE)
        for name, move in moves.items():
            rest = [held - worked for held, worked in zip(move.held, move.worked, strict=True)]
            figures.append(
                f"{name}: writes held {statistics.median(move.held):.2f} s (median of {len(move.held)}), of which"
                f" {statistics.median(move.worked):.2f} s copied and compared, and {statistics.median(rest):.2f} s else"
            )
        ratio = statistics.median(swapped.held) / statistics.median(plain.held)
        figures.append(f"held with logins / without: {ratio:.2f}")


def check_prepared(move: Move) -> None:
    """ACLs and quotas are there under the other names, and no others of these topics."""
    with Admin(move.clusters[GREEN].direct_bootstrap) as admin:
        access = read_access(admin, lambda topic: topic.startswith(move.prefix))
    own = {str(acl) for acl in access.acls or () if acl.name.startswith(move.prefix)}
    assert own == {
        f"User:sa-4711 may Write Topic {move.prefix}-alice",
        f"User:sa-4712 may Write Topic {move.prefix}-bob",
        f"User:sa-4713 may Write Topic {move.prefix}-carol",
        f"User:sa-4713 may Read Topic {move.prefix}-alice",
        f"User:sa-4713 may Read Group {move.prefix}… (prefix)",
        f"User:sa-4712 may Write TransactionalId {move.prefix}-bob… (prefix)",
    }
    assert (access.quotas or {})[("user", "sa-4711"),] == {"producer_byte_rate": QUOTA}


def assert_principals(cluster: DevCluster, names: Mapping[str, str], prefix: str) -> None:
    """The authorizer has let only the right user write to each topic, and the copy (ANONYMOUS), and denied no write."""
    written = [one for one in decisions(cluster) if one.name.startswith(prefix) and one.request == "Produce"]
    for user, name in names.items():
        writers = {(one.principal, one.allowed) for one in written if one.name == f"{prefix}-{user}"}
        assert (f"User:{name}", True) in writers
        assert writers <= {(f"User:{name}", True), ("User:ANONYMOUS", True)}


@pytest.mark.matrix
@pytest.mark.parametrize("move", ["swapped"], indirect=True)
def test_the_next_driver_tries_the_logins_again(move: Move) -> None:
    """The driver dies when all kproxies have committed. Clients go on if each user can log in there, and else back."""
    move.prepare()
    move.start()
    move.wait_flowing()
    with dying_undecided(), pytest.raises(Died):
        move.switch(reversible=False)
    move.log_in_bob("not-the-password")
    assert move.resume() is CoordinatorOutcome.UNDONE
    assert any("error: user bob" in line and "cannot log in at green: " in line for line in move.said)
    assert move.sides() == {BLUE}
    move.wait_flowing()
    assert not written_at(move.clusters[GREEN], move.prefix) - {"User:ANONYMOUS"}
    move.log_in_bob(KEYS["sa-4712"])
    move.switch()
    move.wait_flowing()
    with dying_undecided(), pytest.raises(Died):
        move.roll_back()
    assert move.resume() is CoordinatorOutcome.RELEASED
    assert any("blue: clients log in there themselves" in line for line in move.said)
    assert move.sides() == {BLUE}
    move.wait_flowing()
    move.prepare()
    with dying_undecided(), pytest.raises(Died):
        move.switch(reversible=False)
    assert move.resume() is CoordinatorOutcome.RELEASED
    assert any("logged in at green for alice (sa-4711), bob (sa-4712), carol" in line for line in move.said)
    assert move.sides() == {GREEN}
    move.wait_flowing()
    move.end()
    move.judge(GREEN)
    assert_principals(move.clusters[BLUE], {user: user for user in OLD}, move.prefix)
    assert_principals(move.clusters[GREEN], NAMES, move.prefix)


def written_at(cluster: DevCluster, prefix: str) -> set[str]:
    """The principals that have written to topics with this prefix."""
    return {each.principal for each in decisions(cluster) if each.name.startswith(prefix) and each.request == "Produce"}


@pytest.mark.parametrize("move", ["swapped"], indirect=True)
def test_what_stops_a_switch(move: Move, clusters: Mapping[str, DevCluster]) -> None:
    """A user without a right at the target, one whose login is refused, and another name in the file."""
    move.prepare()
    file = move.directory / "users.yaml"

    def stops(context: SwitchContext = move.context) -> list[str]:
        move.said.clear()
        assert switch_clients(context, lambda _: None, dry_run=True, reversible=False).blocked
        return sorted(line for line in move.said if line.startswith("error"))

    with Admin(clusters[GREEN].direct_bootstrap) as admin:
        acls = read_access(admin, lambda _: False).acls or ()
        (lost,) = [acl for acl in acls if acl.principal == "User:sa-4711" and acl.name == move.topic("alice")]
        assert TargetAdmin(admin, 1).delete_acls([lost]) == [""]
    users("login", file, "bob", GREEN, "--username", "sa-4712", stdin="not-the-password")

    def both_are_refused() -> bool:
        bob = [line for line in stops() if line.startswith("error: user bob")]
        return all(any(kproxy.admin in line for line in bob) for kproxy in move.kproxies)

    wait_until(both_are_refused, "both kproxies have read the users file again", 120)
    alice, *bob = stops()
    refused = f"and is not allowed there: Write Topic {move.topic('alice')}"
    assert alice == f"error: user alice: logs in at green as sa-4711, {refused}"
    assert all("cannot log in at green: " in line for line in bob)
    other = replace(move.context, migration=replace(move.migration, users={**NAMES, "carol": "sa-4711"}))
    assert [line for line in stops(other) if "as sa-4713 for carol, and ACLs and quotas are copied for sa-4711" in line]
