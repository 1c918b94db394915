from __future__ import annotations

import importlib.util

import pytest

from kproxy.base.errors import ConfigError
from kproxy.config import Hop
from kproxy.net.dial.dialer import check_library


def test_a_library_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not everybody has it, and only one kind of hop needs it."""
    hop = Hop.parse("k8s://kafka")
    check_library(hop)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        ConfigError, match=r"^via: kubernetes://kafka needs the package websockets: .* -m pip install websockets$"
    ):
        check_library(hop)
    check_library(Hop.parse("ssh://bastion"))
