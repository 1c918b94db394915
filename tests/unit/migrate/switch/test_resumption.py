"""The driver that takes over an interrupted switch tries logins while it may still go forward or back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from kproxy.base.errors import UpstreamError
from kproxy.migrate.clusters.endpoints import ClusterEndpoints
from kproxy.migrate.journal.switch_journal import ROLLBACK, SWITCHING, SwitchEntry
from kproxy.migrate.spec.migration import Migration, WaveSelection
from kproxy.migrate.spec.switch_section import KproxySelection, SwitchSection
from kproxy.migrate.switch import resumption
from kproxy.migrate.switch.drive import DriveResult
from kproxy.migrate.switch.fleet import KproxyFleet, open_fleet
from kproxy.proxy.switching.participant import Command, CommandType
from kproxy.proxy.switching.twophase import CoordinatorOutcome, JournalDecision, driver_id
from kproxy.proxy.switching.userchecks import LoginOutcome
from tests.harness.servers.fakekproxy import TOKEN, FakeKproxy, some

UPSTREAMS = {"blue": "id-of-blue", "green": "id-of-green"}
MIGRATION = Migration({"bootstrap-servers": "a:1"}, {"bootstrap-servers": "b:1"}, "m", users={"bob": "sa-2"})
FIRST = driver_id(1, "t")
REFUSED = "user alice: {}: cannot log in at green: no"


@dataclass
class Journal:
    """The journal, in memory."""

    entry: SwitchEntry

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None: ...

    def read(self) -> SwitchEntry:
        return self.entry

    take_over = read

    def write(self, entry: SwitchEntry, seconds: float = 30.0) -> SwitchEntry:
        self.entry = entry
        return entry


@dataclass
class Site:
    """Two kproxies that have committed a switch, and hold writes; their driver has died."""

    fakes: list[FakeKproxy]
    fleet: KproxyFleet
    section: SwitchSection
    journal: Journal
    log: list[str] = field(default_factory=list)

    def resume(self, **options: Any) -> DriveResult:
        driven = resumption.resume_drive(
            "b:1", MIGRATION, self.fleet, self.section, self.log.append, **{"abort": False, **options}
        )
        assert driven is not None
        return driven

    @property
    def actives(self) -> set[str]:
        return {fake.state.active for fake in self.fakes}

    @property
    def users(self) -> list[list[str]]:
        """The users for whom each kproxy was asked to log in."""
        return [[user for request in fake.checked for user in request.users] for fake in self.fakes]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    with some(2, UPSTREAMS, logins={"bob": "sa-2"}) as fakes:
        section = SwitchSection(KproxySelection(tuple(fake.address for fake in fakes)), "green", token_file=token)
        with open_fleet(section) as fleet:
            names = tuple(kproxy.name for kproxy in fleet.kproxies)
            entry = SwitchEntry("x1", SWITCHING, "default", "blue", "green", names, users=("alice",))
            journal = Journal(entry.with_decision(FIRST, JournalDecision.BEGUN))
            monkeypatch.setattr(resumption, "SwitchJournal", lambda *_: journal)
            for fake in fakes:
                fake.obey(Command(CommandType.HOLD, "x1", FIRST, "green", 20.0))
                fake.obey(Command(CommandType.FLIP, "x1", FIRST))
                fake.obey(Command(CommandType.COMMIT, "x1", FIRST))
                assert fake.phase == "committed"
            yield Site(fakes, fleet, section, journal)


def test_clients_continue_where_their_users_can_log_in(site: Site) -> None:
    """Those of the journal, of the file and of connected clients; each kproxy tries each once."""
    site.fakes[0].clients = [{"client": "c", "address": "127.0.0.1", "user": "carol"}]
    assert site.resume().end is CoordinatorOutcome.RELEASED
    assert site.actives == {"green"}
    assert site.users == [["alice", "bob", "carol"]] * 2
    assert {(request.cluster, request.upstream) for fake in site.fakes for request in fake.checked} == {
        ("default", "green")
    }


@pytest.mark.parametrize("outcome", [LoginOutcome.REFUSED, LoginOutcome.FAILED])
def test_clients_go_back_if_a_user_cannot_log_in(site: Site, outcome: LoginOutcome) -> None:
    site.fakes[1].outcomes = {"alice": outcome}
    driven = site.resume()
    assert driven.end is CoordinatorOutcome.UNDONE
    assert site.actives == {"blue"}
    assert REFUSED.format(site.fakes[1].address) in driven.reasons
    assert f"error: {REFUSED.format(site.fakes[1].address)}" in site.log


def test_no_login_is_tried_where_nothing_can_be_chosen(site: Site) -> None:
    """The operator aborts; a release is in the journal; or one kproxy has not committed."""
    for fake in site.fakes:
        fake.outcomes = {"alice": LoginOutcome.REFUSED}
    before = site.journal.entry
    site.journal.entry = before.with_decision(FIRST, JournalDecision.RELEASED)
    assert site.resume().end is CoordinatorOutcome.RELEASED
    assert site.users == [[], []]


def test_an_abort_tries_no_login(site: Site) -> None:
    assert site.resume(abort=True).end is CoordinatorOutcome.UNDONE
    assert site.users == [[], []]


def test_no_login_is_tried_if_a_kproxy_has_gone_back(site: Site) -> None:
    site.fakes[0].obey(Command(CommandType.UNDO, "x1", FIRST, force=True))
    assert site.resume().end is CoordinatorOutcome.UNDONE
    assert site.users == [[], []]


def test_users_go_back_to_their_own_names(site: Site) -> None:
    """In a rollback, bob is not expected to be sa-2: here the kproxies would log in so, and clients stay."""
    site.journal.entry = replace(site.journal.entry, what=ROLLBACK)
    driven = site.resume()
    assert driven.end is CoordinatorOutcome.UNDONE
    assert "logs in at green as sa-2 for bob, and ACLs and quotas are copied for bob" in driven.reasons[0]


def test_of_a_part_only_users_of_its_clients_count(site: Site) -> None:
    """bob is in the file, and none of the clients is his."""
    site.journal.entry = replace(site.journal.entry, cluster="default/p")
    for fake in site.fakes:
        fake.cluster = "default/p"
    assert site.resume().end is CoordinatorOutcome.RELEASED
    assert site.users == [["alice"]] * 2


_TOPICS = ("orders-*",)
_WAVE_ENTRY = SwitchEntry("s", SWITCHING, "default/wave-orders", "blue", "green", (), wave="orders", topics=_TOPICS)


def test_what_was_prepared_for_a_copy_back_in_vain() -> None:
    """A switch that was undone; with an abort of nothing, whatever no switch has moved."""
    migration = replace(
        MIGRATION, waves={"orders": WaveSelection(topics=_TOPICS), "logs": WaveSelection(topics=("logs",))}
    )
    entry = replace(_WAVE_ENTRY, reversible=True, decisions=((FIRST, JournalDecision.UNDONE.value),))

    def prepared(driven: SwitchEntry | None, last: SwitchEntry | None = None, *, abort: bool = False) -> object:
        result = None if driven is None else DriveResult(CoordinatorOutcome.UNDONE, (), driven, {})
        return resumption._prepared_in_vain(migration, result, driven or last, abort=abort)

    assert prepared(entry) == {"orders": _TOPICS}
    assert prepared(replace(entry, reversible=False)) == {}
    assert prepared(replace(entry, what=ROLLBACK)) == {}
    assert prepared(replace(entry, wave="", topics=(), cluster="default")) == {"": ()}
    assert prepared(None) == {}
    every = {"": (), "orders": _TOPICS, "logs": ("logs",)}
    assert prepared(None, abort=True) == every
    assert prepared(None, entry, abort=True) == every
    moved = replace(entry, decisions=((FIRST, JournalDecision.RELEASED.value),))
    assert prepared(None, moved, abort=True) == {"": (), "logs": ("logs",)}
    everything = replace(moved, wave="", topics=(), cluster="default")
    assert prepared(None, everything, abort=True) == {}
    back = replace(everything, what=ROLLBACK, origin="green", to="blue")
    assert prepared(None, back, abort=True) == {"orders": _TOPICS, "logs": ("logs",)}


def test_only_what_was_prepared_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thousands of waves perhaps none; one connection to the source is enough."""
    opened: list[Migration] = []
    undone: list[str] = []

    @contextmanager
    def open_endpoints(migration: Migration) -> Iterator[ClusterEndpoints]:
        opened.append(migration)
        yield ClusterEndpoints("a:1", "b:1", "A", "B")

    class Copy:
        def __init__(self, _: object, migration: Migration, *__: object) -> None:
            self._migration = migration

        def undo(self) -> None:
            undone.append(self._migration.wave)

    monkeypatch.setattr(resumption, "open_endpoints", open_endpoints)
    monkeypatch.setattr(resumption, "list_topics", lambda _: ["orders", "kproxy-migration-m.orders-back"])
    monkeypatch.setattr(resumption, "ReverseCopy", Copy)
    resumption._undo_reverse_copies(MIGRATION, {}, print)
    assert not opened
    resumption._undo_reverse_copies(MIGRATION, {"": (), "orders": _TOPICS, "logs": ("logs",)}, print)
    assert (len(opened), undone) == (1, ["orders"])

    def fail(_: object) -> list[str]:
        raise UpstreamError("timeout", "a:1: no broker replied")

    monkeypatch.setattr(resumption, "list_topics", fail)
    lines: list[str] = []
    resumption._undo_reverse_copies(MIGRATION, {"": ()}, lines.append)
    assert "what was prepared on the source stays: a:1: no broker replied" in lines[0]
    assert "--abort tries to undo it again" in lines[0]
