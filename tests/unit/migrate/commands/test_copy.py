from __future__ import annotations

import os
import signal
from contextlib import suppress
from datetime import datetime, timedelta
from unittest.mock import Mock

import click
import pytest

from kproxy.migrate.commands.copy import _end_time, _ending_at, _stopping_on_signal, copy


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_copy(number: int) -> None:
    copy, before = Mock(is_copying=True), signal.getsignal(number)
    with _stopping_on_signal(copy) as asked:
        os.kill(os.getpid(), number)
        assert copy.cancel.call_count == 1
        assert asked == [number]
        with pytest.raises(KeyboardInterrupt):  # whoever asks twice does not want to wait
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) == before


def test_a_signal_before_the_rounds_ends_what_waits() -> None:
    copy = Mock(is_copying=False)
    with _stopping_on_signal(copy) as asked:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        assert copy.cancel.call_count == 1, "if the exception is lost, the rounds end at once"
    assert asked


def test_no_signal_is_lost_in_a_destructor() -> None:
    """Python drops an exception there."""

    class Thing:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

    copy = Mock(is_copying=True)
    with _stopping_on_signal(copy) as asked, suppress(KeyboardInterrupt):
        Thing()
    assert asked == [signal.SIGTERM]
    assert copy.cancel.call_count == 1


# Until a time


def end_time(value: str) -> datetime:
    until = _end_time(click.Context(copy), copy.params[0], value)
    assert until is not None
    return until


@pytest.mark.parametrize("value", ["00:00", "02:00", "23:59"])
def test_a_time_of_day_is_the_next_one(value: str) -> None:
    until, now = end_time(value), datetime.now().astimezone()
    assert until.strftime("%H:%M") == value
    assert now - timedelta(seconds=60) < until < now + timedelta(hours=26)  # a day may have an hour more


def test_a_date_and_time() -> None:
    tomorrow = datetime.now().replace(microsecond=0) + timedelta(days=1)
    assert end_time(tomorrow.isoformat()) == tomorrow.astimezone()
    assert end_time("2199-01-01T00:00+02:00").utcoffset() is not None


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("soon", "is no time; allowed: HH:MM"),
        ("24:00", "is no time"),
        ("2:00", "is no time"),
        ("2001-01-01T02:00", "is over"),
        ("", "is no time"),
    ],
)
def test_no_time(value: str, words: str) -> None:
    with pytest.raises(click.BadParameter, match=words):
        end_time(value)


def test_the_copy_starts_no_round_after_it() -> None:
    running = Mock()
    with _ending_at(running, datetime.now().astimezone() - timedelta(seconds=1)) as is_over:
        assert is_over.wait(60)
    running.finish_round.assert_called_once_with()
    running = Mock()
    with _ending_at(running, datetime.now().astimezone() + timedelta(days=1)) as is_over:
        pass
    with _ending_at(running, None) as is_over:
        assert not is_over.is_set()
    running.finish_round.assert_not_called()
