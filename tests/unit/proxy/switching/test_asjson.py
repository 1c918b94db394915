"""What is written of a switch is read back, and nothing else is."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.proxy.switching import asjson
from kproxy.proxy.switching.asjson import SavedState
from kproxy.proxy.switching.doubts import ClientIdentity
from kproxy.proxy.switching.participant import Command, CommandType, LastSwitch, ParticipantState, Phase, SwitchOutcome

TEXT = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF).filter(str.isprintable), min_size=1, max_size=20)
NUMBER = st.floats(0, 1e11)
ENDED = st.builds(LastSwitch, TEXT, TEXT, st.sampled_from(SwitchOutcome), TEXT, NUMBER, NUMBER, st.booleans())


@st.composite
def states(draw: st.DrawFn) -> ParticipantState:
    active, other = draw(st.lists(TEXT, min_size=2, max_size=2, unique=True))
    count, last = draw(st.integers(0, 2**50)), draw(st.none() | ENDED)
    phase = draw(st.sampled_from(Phase))
    if phase is Phase.SERVING:
        return ParticipantState(active, count=count, last=last)
    flipped = phase in (Phase.FLIPPED, Phase.COMMITTED)
    deadline = None if phase is Phase.COMMITTED else draw(NUMBER)
    former, to = (other, active) if flipped else (active, other)
    return ParticipantState(active, phase, draw(TEXT), draw(TEXT), former, to, draw(NUMBER), deadline, count, last)


@given(
    state=states(), ended=st.booleans(), fetched=st.none() | st.lists(st.builds(ClientIdentity, TEXT, TEXT), max_size=4)
)
def test_a_state_comes_back(state: ParticipantState, ended: bool, fetched: list[ClientIdentity] | None) -> None:
    saved = SavedState(state, ended, fetched=None if fetched is None else tuple(fetched))
    for more in ({}, {"unsure": 12.5, "unknown": 3.0}):
        written = asjson.encode_state_file("default", replace(saved, **more))
        known = replace(saved, **more) if ended else SavedState(state)
        assert asjson.decode_state_file(written, "default") == known
    assert asjson.state_from_json(json.loads(json.dumps({**asjson.state_as_json(state), "more": 1}))) == state


@pytest.mark.parametrize("fetched", [{}, "x", [["a"]], [["a", "b", "c"]], [["a", 1]], [None], [["a", "b"]] * 2001])
def test_clients_that_are_none(fetched: object) -> None:
    value = json.loads(asjson.encode_state_file("default", SavedState(ParticipantState("blue"), ended=True)))
    with pytest.raises(ValueError, match="'fetched'"):
        asjson.decode_state_file(json.dumps({**value, "fetched": fetched}).encode(), "default")


@given(state=states(), at=st.integers(0, 500), byte=st.binary(max_size=3))
def test_a_damaged_state_is_read_or_refused_in_one_line(state: ParticipantState, at: int, byte: bytes) -> None:
    data = asjson.encode_state_file("default", SavedState(state))
    problem = ""
    try:
        asjson.decode_state_file(data[:at] + byte + data[at + 1 :], "default")
    except ValueError as error:
        problem = str(error)
    assert problem.isprintable()


HELD = {"active": "blue", "phase": "held", "switch": "x", "former": "blue", "to": "green", "deadline": 5}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"active": ""}, "'active' must be"),
        ({"active": 1}, "'active' must be"),
        ({"active": "red"}, "does not fit its phase"),
        ({"phase": "flipped"}, "does not fit its phase"),
        ({"phase": "lost"}, "'phase' must be one of"),
        ({"switch": ""}, "does not say which"),
        ({"former": "green"}, "from where to where"),
        ({"deadline": None}, "deadline does not fit"),
        ({"deadline": -1}, "'deadline' must be a number"),
        ({"deadline": 1e300}, "'deadline' must be a number"),
        ({"count": -1}, "'count' must be a whole number"),
        ({"count": True}, "'count' must be a whole number"),
        ({"last": []}, "is not a JSON object"),
        ({"last": {"switch": "x", "to": "y", "outcome": "lost"}}, "'outcome' must be one of"),
    ],
)
def test_a_state_that_no_kproxy_was_in_is_refused(changed: dict[str, object], says: str) -> None:
    assert asjson.state_from_json(HELD).phase is Phase.HELD
    with pytest.raises(ValueError, match=says.replace("(", r"\(")):
        asjson.state_from_json({**HELD, **changed})


def test_a_command_has_what_it_needs() -> None:
    name, command = asjson.parse_command(
        {"cluster": "c", "switch": "x", "do": "hold", "to": "green", "seconds": 5, "after": 0}
    )
    assert (name, command) == ("c", Command(CommandType.HOLD, "x", to="green", seconds=5.0, after=0))
    undo = asjson.parse_command({"cluster": "c", "switch": "x", "do": "undo", "force": True})
    assert undo == ("c", Command(CommandType.UNDO, "x", force=True))
    for wrong in ([], None, "x", 5, {}, {"cluster": "c"}, {"cluster": "c", "switch": "x", "do": "hold"}):
        with pytest.raises(ValueError, match=r"has no|is not a JSON object|needs"):
            asjson.parse_command(wrong)
