"""Commands run without the variables of whoever runs the tests."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [name for name in os.environ if name.startswith("KPROXY_")]:
        monkeypatch.delenv(variable)
