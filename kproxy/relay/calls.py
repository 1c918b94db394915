"""What kproxy does with each API and version, and the counters of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kproxy.rewrite.plan import Plan, plan_for
from kproxy.wire.api import API_VERSIONS, APIS, PRODUCE, SASL_HANDSHAKE
from kproxy.wire.primitives import Buffer


class Counters(Protocol):
    """What is counted of one API and version; the metrics room's CallCounters."""

    count: int

    def add(self, seconds: float, times: int = 1) -> None:
        """Count the time from a request to the beginning of its response, for so many of them."""


class Call:
    """One API in one version towards one node: what to do with its frames, and its counters."""

    __slots__ = ("api", "counters", "edited", "is_plain", "key", "plan", "special", "version")

    def __init__(self, key: int, version: int, counters: Counters) -> None:
        self.key = key
        self.version = version
        self.api = APIS[key].name
        self.counters = counters
        self.plan: Plan | None = plan_for(key, version)
        # Whether its requests need a look beyond their first 12 bytes.
        self.special = key == PRODUCE or (key == SASL_HANDSHAKE and version == 0)
        # Whether its responses may have to be edited.
        self.edited = self.plan is not None or key == API_VERSIONS
        # Whether a whole response, at buffer[at:end], needs none after all.
        plain = self.plan.plain if self.plan is not None else None
        self.is_plain: Callable[[Buffer, int, int], bool] = plain.fits if plain is not None else _never


def _never(buffer: Buffer, at: int, end: int) -> bool:
    return False


class Calls(dict[int, "Call | None"]):
    """The calls towards one node, by `api_key << 16 | version`; None for what kproxy does not pass on."""

    def __init__(self, counters: Callable[[int, str, int], Counters]) -> None:
        self._counters = counters

    def __missing__(self, code: int) -> Call | None:
        key, version = code >> 16, code & 0xFFFF
        api = APIS.get(key)
        if api is None or not api.serves(version):
            return None  # not remembered: a client chooses the number
        call = self[code] = Call(key, version, self._counters(code, api.name, version))
        return call
