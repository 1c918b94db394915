"""The report of a migration: it claims no more than its record has, and nothing in it is markup."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from kproxy.base.diagnostic import ERROR
from kproxy.migrate.copier.state import PartitionState
from kproxy.migrate.journal.switch_journal import ROLLBACK, SWITCHING, SwitchEntry, is_switch_key, read_history
from kproxy.migrate.plan.changes import CreateTopic
from kproxy.migrate.prepare.change_journal import JournaledChange
from kproxy.migrate.report.asjson import record_to_json
from kproxy.migrate.report.doubts import find_doubts
from kproxy.migrate.report.movepage import render_page
from kproxy.migrate.report.record import MigrationRecord, where_clients_are
from kproxy.migrate.report.status import MigrationStatus, ReverseCopyStatus
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.spec.switch_section import KproxySelection, SwitchSection
from kproxy.migrate.usage.observed import KproxyCoverage, ObservedUsage
from kproxy.migrate.usage.sourcestate import SourceChange, Writing
from kproxy.migrate.verify.results import VerifiedRange
from kproxy.proxy.switching.twophase import JournalDecision

HOSTILE = '<script>alert("x")</script>‮\x1b[31m'
SECTION = SwitchSection(KproxySelection(("kp-1:1",)), "green")
MIGRATION = Migration({"bootstrap-servers": "old:1"}, {"bootstrap-servers": ["new:1", HOSTILE]}, switch=SECTION)
STATE = PartitionState("orders", 0, 1000, 1000, records=900, size=90_000, checksum=0xABC, at=1_700_000_000_000)
KEPT = VerifiedRange(0, 1000, 900, digest=0xDEF, at=1_700_000_100_000)
SWITCH = SwitchEntry(
    "x1", SWITCHING, "default", "blue", "green", ("kp-1", HOSTILE),
    decisions=(("000001-a", JournalDecision.RELEASED.value),), ended=True, began=1_700_000_200_000,
    at=1_700_000_202_000, host="ops-1", pid=7, user="alice", held_seconds=1.25,
)  # fmt: skip
USAGE = ObservedUsage(1.0, 3601.0, kproxies=(KproxyCoverage("kp-1", 1.0, 3601.0),), source=SourceChange(1.0, 3601.0))
STATUS = MigrationStatus(
    "move", {("orders", 0): STATE}, {("orders", 0): KEPT}, ("readers",), {}, False, SWITCH
)  # fmt: skip
RECORD = MigrationRecord(
    1_700_000_300_000, MIGRATION, STATUS, (SWITCH,),
    (JournaledChange(0, CreateTopic(HOSTILE, 1, 1, {}, {}), 1_700_000_000_000),),
    {"readers": {("orders", 0): 17}}, usage=USAGE,
)  # fmt: skip


def _copied_back(wave: str, status: MigrationStatus | None) -> MigrationRecord:
    problem = "" if status is not None else "the source cannot be reached"
    return replace(RECORD, reverse_copies=(ReverseCopyStatus(wave, status, problem),))


def errors(record: MigrationRecord) -> list[str]:
    return [str(doubt) for doubt in find_doubts(record) if doubt.severity is ERROR]


def texts(record: MigrationRecord) -> str:
    return "\n".join(f"{doubt.severity}: {doubt}" for doubt in find_doubts(record))


def with_status(**changes: object) -> MigrationRecord:
    return replace(RECORD, status=replace(STATUS, **changes))  # type: ignore[arg-type]


def test_the_page_has_what_was_recorded_and_no_markup_of_others() -> None:
    page = render_page(RECORD)
    assert "<script" not in page
    assert "\x1b" not in page
    assert "‮" not in page
    root = ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>\n").replace('<meta charset="utf-8">', "").replace(
        '<meta name="viewport" content="width=device-width, initial-scale=1">', ""))  # fmt: skip
    shown = "".join(root.itertext())
    for text in (
        "1 of 1 partition compared up to all that was copied. By the last switch, all clients are on green, the target",
        "00000abc", "0000000000000def", "2023-11-14 22:15:00 UTC", "alice on ops-1, process 7", "1.2 s", "What this does not",
        "readers", "not signed",
    ):  # fmt: skip
        assert text in shown, text
    assert errors(RECORD) == []


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (with_status(partitions={}), "copy: no record was copied"),
        (with_status(verified={}), "1,000 source offsets were copied and never compared: orders-0"),
        (with_status(verified={("orders", 0): replace(KEPT, upto=400)}), "600 source offsets were copied and never"),
        (with_status(verified={("orders", 0): replace(KEPT, unknown=2)}), "2 records or more stood on the target"),
        (with_status(lost_topics={"orders": "it was recreated"}), "topic orders: it was recreated"),
        (replace(RECORD, switches=(replace(SWITCH, ended=False),)), "switch x1: decided, not confirmed by all"),
        (replace(RECORD, switches=(replace(SWITCH, ended=False, decisions=()),)), "switch x1: not finished"),
        (
            replace(RECORD, usage=replace(USAGE, source=SourceChange(1, 2, writings=(Writing("a", 0, 7, 1, -1),)))),
            "topic a: a producer goes round the kproxies",
        ),
        (_copied_back("", replace(STATUS, verified={})), "copy back: 1,000 source offsets were copied and never"),
    ],
)
def test_what_is_an_error(record: MigrationRecord, text: str) -> None:
    assert any(text in error for error in errors(record)), errors(record)
    assert text in "".join(ElementTree.fromstring(_body(record)).itertext())


def _body(record: MigrationRecord) -> str:
    page = render_page(record)
    return page[page.index("<main>") : page.index("</main>") + len("</main>")]


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (replace(RECORD, usage=None), "warning: kproxies: it was not observed"),
        (replace(RECORD, migration=replace(MIGRATION, switch=None)), "note: clients: no kproxies are in the file"),
        (_copied_back("", None), "warning: copy back: what was copied back"),
        (_copied_back("w1", None), "warning: copy back of wave w1: what was copied back"),
        (replace(RECORD, switches=(replace(SWITCH, user=""),)), "note: switch x1: was driven by a version"),
        (with_status(last_switch=replace(SWITCH, again=True)), "warning: switches: earlier ones were driven"),
        (with_status(verified={("orders", 0): replace(KEPT, digest=None)}), "note: copy: 1 partitions have no digest"),
        (with_status(verified={("orders", 0): replace(KEPT, deleted=3)}), "warning: copy: 3 source offsets could not"),
        (
            with_status(partitions={("orders", 0): replace(STATE, skipped=4)}),
            "warning: copy: 4 source offsets were left",
        ),
    ],
)
def test_what_is_less(record: MigrationRecord, text: str) -> None:
    assert text in texts(record)
    assert errors(record) == []


def test_many_places_are_cut() -> None:
    states = {("t", partition): STATE for partition in range(1000)}
    (error,) = errors(with_status(partitions=states, verified={}))
    assert error.endswith("t-0, t-1, t-2, t-3, t-4 and 995 more partitions")


def test_where_clients_are() -> None:
    assert where_clients_are(with_status(last_switch=None)).startswith("No switch is recorded")
    assert "has not finished" in where_clients_are(with_status(last_switch=replace(SWITCH, ended=False)))
    part = replace(SWITCH, cluster="default/some", clients=("app-#",))
    assert "on blue, the source, except those of app-#" in where_clients_are(with_status(last_switch=part))


def test_json_has_the_same() -> None:
    value = json.loads(json.dumps(record_to_json(RECORD)))
    assert value["switches"][0]["outcome"] == "done"
    assert value["copy"]["partitions"][0]["digest"] == "0000000000000def"
    assert value["verified"][0]["at"] == KEPT.at
    assert value["positions"] == [{"group": "readers", "target_topic": "orders", "partition": 0, "offset": 17}]
    assert {doubt["severity"] for doubt in value["not_proven"]} == {"note"}
    assert value["reverse_copies"] == []
    copies = (ReverseCopyStatus("", STATUS), ReverseCopyStatus("w1", None, "the source cannot be reached"))
    value = json.loads(json.dumps(record_to_json(replace(RECORD, reverse_copies=copies))))
    assert [(copy["wave"], copy["problem"], len(copy["verified"])) for copy in value["reverse_copies"]] == [
        ("", "", 1),
        ("w1", "the source cannot be reached", 0),
    ]
    assert value["reverse_copies"][0]["copy"]["partitions"][0]["records"] == STATE.records


def test_the_page_has_each_copy_back() -> None:
    copies = (ReverseCopyStatus("", STATUS), ReverseCopyStatus(HOSTILE, STATUS))
    page = render_page(replace(RECORD, reverse_copies=copies))
    assert "Copied back, from the target to the source" in page
    assert "Copied back of wave &lt;script&gt;" in page
    assert "<script>" not in page


def test_the_history_of_switches_is_in_order() -> None:
    back = replace(SWITCH, switch="x2", what=ROLLBACK, origin="green", to="blue", began=SWITCH.began + 9)
    values = {
        b'["switch"]': json.dumps(back.to_record()).encode(),
        b'["former-switch","x1"]': json.dumps(SWITCH.to_record()).encode(),
        b'["job"]': b"{}",
    }
    assert read_history(values) == [SWITCH, back]
    assert [is_switch_key(key) for key in values] == [True, True, False]
