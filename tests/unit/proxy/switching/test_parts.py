"""Which clients a part has, and which parts cannot be beside each other."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.proxy.switching import asjson
from kproxy.proxy.switching.asjson import PartCommand, SavedState
from kproxy.proxy.switching.participant import ParticipantState
from kproxy.proxy.switching.parts import Part, check_part, overlap_problem, split_unit, unit_name

NAMES = st.text("ab-1", min_size=1, max_size=4)
NAMED = st.builds(str.__add__, NAMES, st.sampled_from(["", "*", "#"]))


@pytest.mark.parametrize(
    ("named", "has", "has_not"),
    [
        ("orders", ["orders"], ["orders-1", "order", "", "Orders"]),
        ("orders-*", ["orders-1", "orders-", "orders-a-b", "orders-*"], ["orders", "xorders-1", ""]),
        (
            "orders-#",
            ["orders-1", "orders-007", "orders-#"],
            ["orders-", "orders-1a", "orders-a", "orders-²", "orders"],
        ),
    ],
)
def test_whom_a_client_id_means(named: str, has: list[str], has_not: list[str]) -> None:
    part = Part("p", ("other", named))
    assert [one for one in has if not part.has(one)] == []
    assert [one for one in has_not if part.has(one)] == []


@given(st.lists(NAMED, min_size=1, max_size=3), st.lists(NAMED, min_size=1, max_size=3), NAMES)
def test_no_client_belongs_to_two_parts_that_are_allowed(one: list[str], other: list[str], client: str) -> None:
    first, second = Part("a", tuple(one)), Part("b", tuple(other))
    if not overlap_problem(first, [second]):
        assert not (first.has(client) and second.has(client))
    assert bool(overlap_problem(first, [second])) is bool(overlap_problem(second, [first]))


def test_what_is_shared_is_said() -> None:
    others = [Part("b", ("x",)), Part("c", ("app-*",))]
    assert overlap_problem(Part("a", ("y", "z")), others) == ""
    assert overlap_problem(Part("a", ("x",)), others) == "client id x is in part b already"
    assert overlap_problem(Part("a", ("app-#",)), others) == "client id app-# is in part c already, as app-*"


@pytest.mark.parametrize(
    "part",
    [
        Part("", ("a",)),
        Part("A", ("a",)),
        Part("a/b", ("a",)),
        Part("a" * 64, ("a",)),
        Part("a", ()),
        Part("a", ("",)),
        Part("a", ("*",)),
        Part("a", ("#",)),
        Part("a", ("x" * 101,)),
        Part("a", ("x\n",)),
        Part("a", tuple(f"client-{number}" for number in range(1001))),
        Part("a", tuple(f"{number:0100}" for number in range(400))),
    ],
)
def test_parts_that_cannot_be(part: Part) -> None:
    with pytest.raises(ValueError, match=r"part") as caught:
        check_part(part)
    assert str(caught.value).isprintable()


def test_units_have_names() -> None:
    assert [split_unit(unit_name("default", part)) for part in ("", "reports")] == [
        ("default", ""),
        ("default", "reports"),
    ]
    assert (unit_name("default"), unit_name("default", "reports")) == ("default", "default/reports")


def test_a_part_is_made_and_ended_by_a_command() -> None:
    made = asjson.parse_command({"cluster": "default/a", "do": "part", "clients": ["x", "y-*"]})
    assert made == ("default", PartCommand("a", ("x", "y-*")))
    assert asjson.parse_command({"cluster": "default/a", "do": "join"}) == ("default", PartCommand("a"))


@pytest.mark.parametrize(
    "body",
    [
        {"cluster": "default", "do": "part", "clients": ["x"]},
        {"cluster": "default", "do": "join"},
        {"cluster": "default/", "do": "join"},
        {"cluster": "default/a", "do": "part"},
        {"cluster": "default/a", "do": "part", "clients": []},
        {"cluster": "default/a", "do": "part", "clients": "x"},
        {"cluster": "default/a", "do": "part", "clients": [1]},
        {"cluster": "default/a/b", "do": "part", "clients": ["x"]},
        {"cluster": "default/a", "do": "part", "clients": ["x"], "switch": "s"},
        {"cluster": "default/a", "do": "join", "clients": ["x"]},
        {"cluster": "default/a", "do": "part", "clients": ["x"] * 1001},
    ],
)
def test_no_command_for_a_part(body: object) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        asjson.parse_command(body)
    assert str(caught.value).isprintable()


def test_the_file_of_a_part_and_of_its_cluster_come_back() -> None:
    blue = ParticipantState("blue")
    for unit, saved in (
        ("default", SavedState(blue, parts=("a", "b"))),
        ("default/a", SavedState(blue, ended=True, clients=("x",), fetched=())),
    ):
        written = asjson.encode_state_file(unit, saved)
        assert asjson.decode_state_file(written, unit) == saved
        assert json.loads(written)["format"] == 2, "a kproxy that knows no parts refuses it"
    assert json.loads(asjson.encode_state_file("default", SavedState(blue)))["format"] == 1


@pytest.mark.parametrize("clients", [[], ["*"], [""], "x"])
def test_a_file_of_a_part_without_good_clients_is_refused(clients: object) -> None:
    value = json.loads(asjson.encode_state_file("default/a", SavedState(ParticipantState("blue"), clients=("x",))))
    with pytest.raises(ValueError, match=r"part a|must be a list"):
        asjson.decode_state_file(json.dumps({**value, "clients": clients}).encode(), "default/a")
