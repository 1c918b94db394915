from __future__ import annotations

import os
import signal
from contextlib import suppress
from unittest.mock import Mock

import pytest

from kproxy.migrate.commands.copy import _stopping_on_signal


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
