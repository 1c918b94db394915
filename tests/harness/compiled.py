"""Tests that cannot run on the compiled data plane."""

from __future__ import annotations

import pytest

from kproxy.base import compilation

replaces_a_method = pytest.mark.skipif(
    compilation.data_plane_kind() == compilation.COMPILED,
    reason="it replaces a method or function that compiled code calls without looking it up",
)
