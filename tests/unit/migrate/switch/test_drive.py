"""The driver with kproxies that misbehave: whatever they do, it ends, and they all lead to one upstream."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from kproxy.base.errors import ConfigError, KproxyError, UpstreamError
from kproxy.migrate.journal.switch_journal import SWITCHING, SwitchEntry
from kproxy.migrate.spec.switch_section import KproxySelection, SwitchSection
from kproxy.migrate.switch.drive import TIMEOUTS, Drive, DriveResult, DriveTimeouts, HoldTask
from kproxy.migrate.switch.fleet import KproxyFleet, open_fleet
from kproxy.migrate.switch.report import SwitchResult, result_lines, result_to_json
from kproxy.proxy.switching.participant import Command, CommandType, Phase
from kproxy.proxy.switching.twophase import CoordinatorOutcome, JournalDecision, Stage, SwitchPlan, Work, driver_id
from tests.harness.servers.fakekproxy import TOKEN, Cut, FakeKproxy, some

UPSTREAMS = {"blue": "id-of-blue", "green": "id-of-green"}
QUICK = DriveTimeouts(first_reply=3.0, silence=0.4, reserve=0.3, final_replies=1.0, poll=0.02, work_poll=0.05)
Harm = Callable[[FakeKproxy, Command | None], bytes | None]


@dataclass
class Noted:
    """A journal. `fails`: the decisions that cannot be written, and why."""

    entries: list[SwitchEntry] = field(default_factory=list)
    fails: Mapping[JournalDecision, KproxyError] = field(default_factory=dict)

    def write(self, entry: SwitchEntry, seconds: float = 30.0) -> SwitchEntry:
        if entry.decisions and not entry.ended and (error := self.fails.get(JournalDecision(entry.decisions[-1][1]))):
            raise error
        self.entries.append(entry)
        return entry


@dataclass
class Site:
    fakes: list[FakeKproxy]
    fleet: KproxyFleet
    journal: Noted = field(default_factory=Noted)
    said: list[str] = field(default_factory=list)
    done: list[Work] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)

    def drive(
        self,
        of: Work | None = None,
        work: HoldTask | None = None,
        *,
        number: int = 1,
        seconds: float = 5.0,
        **more: Any,
    ) -> Drive:
        """A drive in which the work of one kind is another, if it is given."""
        names = tuple(one.name for one in self.fleet.kproxies)
        plan = SwitchPlan("x1", driver_id(number, "t"), names, "blue", "green", seconds, **more)
        entry = self.journal.entries[-1] if self.journal.entries else None
        entry = entry or SwitchEntry("x1", SWITCHING, "default", "blue", "green", names)
        works: dict[Work, HoldTask] = {each: self._doing(each) for each in Work}
        if of is not None and work is not None:
            works[of] = work
        return Drive(plan, self.fleet, self.journal, entry, works, self.said.append, QUICK, self.shown.append)

    def _doing(self, work: Work) -> HoldTask:
        def do(until: float) -> None:
            self.done.append(work)

        return do

    def resume(self, *, abort: bool = False, number: int = 2) -> DriveResult:
        decided = self.journal.entries[-1].decision
        return self.drive(number=number, takes_over=True, decided=decided, abort=abort).run()

    def recover(self) -> None:
        for fake in self.fakes:
            fake.harm = lambda _, __: None

    def actives(self) -> set[str]:
        return {fake.state.active for fake in self.fakes}

    def phases(self) -> set[Phase]:
        return {fake.phase for fake in self.fakes}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    with some(3, UPSTREAMS) as fakes:
        section = SwitchSection(KproxySelection(tuple(fake.address for fake in fakes)), "green", token_file=token)
        with open_fleet(section, 0.5) as those:
            yield Site(fakes, those)


@pytest.mark.parametrize(("blocked", "outcome"), [(True, "blocked"), (False, "not begun")])
def test_the_json_of_a_switch_that_held_no_write(blocked: bool, outcome: str) -> None:
    result = SwitchResult(None, "no: two findings\nsee the log file", blocked=blocked)

    assert result_to_json(result) == {
        "switch": None,
        "outcome": outcome,
        "why": ["no: two findings", "see the log file"],
    }


def test_all_goes_well(site: Site) -> None:
    driven = site.drive().run()
    assert driven.end is CoordinatorOutcome.RELEASED
    assert driven.entry.ended
    assert [JournalDecision(record) for _, record in driven.entry.decisions] == [
        JournalDecision.BEGUN,
        JournalDecision.RELEASED,
    ]
    assert site.done == list(Work)
    assert site.said[:2] == ["reading the state of all kproxies", "holding writes"]
    assert all(re.search(r" \(writes held for \d+\.\d of 5 s\)$", line) for line in site.said[2:])
    assert site.said[-1].startswith("releasing writes: clients continue on green")
    assert any("writes held for" in line for line in site.shown)
    assert site.actives() == {"green"}
    assert site.phases() == {Phase.SERVING}
    for fake in site.fakes:
        assert [phase for phase, _ in fake.moments] == ["holding", "held", "flipped", "committed", "serving"]
    said = result_to_json(SwitchResult(driven))
    assert said["outcome"] == "released"
    assert all(one["held_seconds"] is not None for one in said["kproxies"])
    assert any("writes were held for" in line for line in result_lines(SwitchResult(driven)))


def cut(_: FakeKproxy, __: Command | None) -> bytes | None:
    raise Cut


_HEAD = b"HTTP/1.1 200 OK\r\nKproxy-Admin: 1\r\nContent-Type: application/json\r\n"
HOSTILE: dict[str, bytes | None] = {
    "hangs up": None,
    "500": b"HTTP/1.1 500 Internal Server Error\r\nKproxy-Admin: 1\r\nContent-Length: 5\r\n\r\noops\n",
    "no HTTP": b"\x00\x01\x02\x03\r\n\r\n",
    "no JSON": _HEAD + b"Content-Length: 3\r\n\r\n{{{",
    "other JSON": _HEAD + b"Content-Length: 2\r\n\r\n[]",
    "a state that cannot be": _HEAD
    + b'\r\n{"name":"default","active":"blue","phase":"flipped","switch":"x1","to":"green","upstreams":{}}',
    "cut": _HEAD + b"Content-Length: 4000\r\n\r\n{",
    "401": b"HTTP/1.1 401 Unauthorized\r\nKproxy-Admin: 1\r\nContent-Length: 2\r\n\r\nno",
}


@pytest.mark.parametrize("how", HOSTILE)
@pytest.mark.parametrize("do", [CommandType.HOLD, CommandType.FLIP, CommandType.COMMIT], ids=str)
def test_one_is_hostile_from_a_step_on(site: Site, how: str, do: CommandType) -> None:
    """It answers nothing that can be used; it goes back by its deadline, or is led back later."""
    answer = HOSTILE[how]
    broken = threading.Event()

    def harm(_: FakeKproxy, command: Command | None) -> bytes | None:
        if command is not None and command.type is do:
            broken.set()
        if not broken.is_set():
            return None
        if answer is None:
            raise Cut
        return answer

    site.fakes[1].harm = harm
    driven = site.drive(seconds=1.5).run()
    assert driven.end is CoordinatorOutcome.INCOMPLETE
    assert any(site.fakes[1].address in line for line in driven.reasons)
    assert {site.fakes[0].state.active, site.fakes[2].state.active} == {"blue"}
    site.recover()
    assert site.resume().end is CoordinatorOutcome.UNDONE
    assert site.actives() == {"blue"}
    assert site.phases() == {Phase.SERVING}


@pytest.mark.parametrize("how", ["silent", "huge"])
def test_one_says_nothing_or_has_no_end(site: Site, how: str) -> None:
    given_up = threading.Event()

    def harm(_: FakeKproxy, __: Command | None) -> bytes | None:
        if how == "huge":
            return _HEAD + b"\r\n" + b" " * (40 << 20)
        given_up.wait(30)
        raise Cut

    site.fakes[0].harm = harm
    driven = site.drive().run()
    given_up.set()
    assert driven.end is CoordinatorOutcome.UNDONE
    assert not driven.entry.decisions
    assert all(not fake.moments for fake in site.fakes)


def test_answers_are_lost_now_and_then(site: Site) -> None:
    """What was asked is done all the same; it is asked again."""
    count = 0

    def harm(fake: FakeKproxy, command: Command | None) -> bytes | None:
        nonlocal count
        count += 1
        if command is not None and count % 2:
            with fake.lock:
                fake.obey(command)
            raise Cut
        return None

    site.fakes[2].harm = harm
    assert site.drive().run().end is CoordinatorOutcome.RELEASED
    assert site.actives() == {"green"}


def test_writes_that_do_not_settle(site: Site) -> None:
    site.fakes[0].unanswered = 1
    driven = site.drive(seconds=1.5).run()
    assert driven.end is CoordinatorOutcome.UNDONE
    assert "too long" in driven.reasons[0]
    assert any(line.endswith(f": hold, waiting for {site.fakes[0].address}") for line in site.shown)
    assert site.actives() == {"blue"}


@pytest.mark.parametrize("work", list(Work), ids=str)
def test_work_that_fails(site: Site, work: Work) -> None:
    def fail(_: float) -> None:
        raise UpstreamError("other", "the source is gone")

    driven = site.drive(work, fail).run()
    assert driven.end is CoordinatorOutcome.UNDONE
    assert driven.reasons == ("the source is gone",)
    assert site.phases() == {Phase.SERVING}
    assert site.actives() == {"blue"}


def test_work_that_does_not_end(site: Site) -> None:
    never = threading.Event()

    def wait(_: float) -> None:
        never.wait(30)

    driven = site.drive(Work.VERIFY, wait, seconds=1.5).run()
    never.set()
    assert driven.end is CoordinatorOutcome.UNDONE
    assert "took too long" in driven.reasons[0]
    assert site.actives() == {"blue"}


def test_work_that_has_a_defect(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    assert site.drive(Work.COPY, lambda _: [][1]).run().end is CoordinatorOutcome.UNDONE
    assert "IndexError" in caplog.text
    assert site.actives() == {"blue"}


def test_somebody_wants_to_go_back(site: Site) -> None:
    drive = site.drive(Work.COPY, lambda _: drive.abort("SIGINT was given"))
    driven = drive.run()
    assert driven.end is CoordinatorOutcome.UNDONE
    assert driven.reasons[0] == "SIGINT was given"


def test_the_journal_cannot_be_written(site: Site) -> None:
    site.journal.fails = {JournalDecision.BEGUN: UpstreamError("other", "no leader")}
    driven = site.drive().run()
    assert driven.end is CoordinatorOutcome.UNDONE
    assert all(not fake.moments for fake in site.fakes)


def test_the_decision_to_release_cannot_be_written(site: Site) -> None:
    """Nobody knows whether it is there: the kproxies stay committed, and whoever resumes reads the journal."""
    site.journal.fails = {JournalDecision.RELEASED: UpstreamError("other", "no leader")}
    assert site.drive().run().end is CoordinatorOutcome.INCOMPLETE
    assert site.phases() == {Phase.COMMITTED}
    site.journal.fails = {}
    assert site.resume().end is CoordinatorOutcome.RELEASED
    assert site.actives() == {"green"}


def test_another_driver_has_the_journal(site: Site) -> None:
    site.journal.fails = {JournalDecision.RELEASED: ConfigError("another kproxy has taken over")}
    assert site.drive().run().end is CoordinatorOutcome.TAKEN_OVER
    assert site.phases() == {Phase.COMMITTED}


class Died(BaseException):
    """As SIGKILL."""


@pytest.mark.parametrize("abort", [False, True], ids=["resume", "abort"])
@pytest.mark.parametrize("do", [CommandType.HOLD, CommandType.FLIP, CommandType.COMMIT, CommandType.RELEASE], ids=str)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_the_driver_dies(site: Site, do: CommandType, at: int, abort: bool) -> None:
    """When so many kproxies have done this step. Whoever comes then brings all of them to one side."""
    count, lock = 0, threading.Lock()
    dead = threading.Event()

    def harm(_: FakeKproxy, command: Command | None) -> bytes | None:
        nonlocal count
        with lock:
            if command is not None and command.type is do and not dead.is_set():
                count += 1
                if count > at:
                    dead.set()
        if dead.is_set():
            raise Cut
        return None

    for fake in site.fakes:
        fake.harm = harm
    drive = site.drive(seconds=20.0)
    take = drive._wait_for_event

    def dying(requests: Mapping[str, Command | None]) -> None:
        if dead.is_set():
            raise Died
        take(requests)

    drive._wait_for_event = dying  # type: ignore[method-assign]
    with pytest.raises(Died):
        drive.run()
    site.recover()
    driven = site.resume(abort=abort)
    assert driven.end in (CoordinatorOutcome.RELEASED, CoordinatorOutcome.UNDONE)
    assert site.phases() == {Phase.SERVING}
    assert site.actives() == ({"green"} if do is CommandType.RELEASE else {"blue"})


def test_one_dies_in_the_hold_and_comes_back(site: Site) -> None:
    """While it is away the switch is undone, and it ends what its state file has."""
    missed = threading.Event()

    def work(_: float) -> None:
        site.fakes[1].harm = cut
        missed.wait(5)

    driven = site.drive(Work.COPY, work, seconds=20.0).run()
    missed.set()
    assert driven.end is CoordinatorOutcome.INCOMPLETE
    site.recover()
    site.fakes[1].restart()
    assert site.resume(number=3).end is CoordinatorOutcome.UNDONE
    assert site.actives() == {"blue"}
    assert site.phases() == {Phase.SERVING}


def test_an_entry_of_the_journal_survives_json() -> None:
    entry = SwitchEntry("x", SWITCHING, "default", "blue", "green", ("a:1", "b:1"), reversible=True)
    entry = replace(
        entry.with_decision("000001-a", JournalDecision.BEGUN).with_decision("000001-a", JournalDecision.RELEASED),
        ended=True,
        at=5,
    )
    assert SwitchEntry.read(json.dumps(entry.to_record()).encode()) == entry
    assert (entry.is_moved, entry.driver_number, entry.decision) == (True, 1, JournalDecision.RELEASED)
    assert SwitchEntry.read(None) is None


@pytest.mark.parametrize("value", [b"", b"{}", b"[]", b'{"v": 2}', b'{"v":1,"switch":"x","what":"dance"}'], ids=repr)
def test_an_entry_that_cannot_be_read(value: bytes) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        SwitchEntry.read(value)


def test_a_few_kproxies_are_asked_again_soon() -> None:
    """Most stages take milliseconds. Where one takes long, or there are many kproxies, they are asked less often."""
    seconds = [TIMEOUTS.interval(Stage.HOLD, in_stage, kproxies) for in_stage, kproxies in ((0, 3), (0.4, 3), (9, 3))]
    assert seconds == [0.02, 0.1, 0.2]
    assert TIMEOUTS.interval(Stage.HOLD, 0, 1000) == 0.2
    assert TIMEOUTS.interval(Stage.WORK, 0, 3) == 1.0
