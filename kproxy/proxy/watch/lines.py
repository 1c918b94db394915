"""What passes, as one line of JSON each: what `GET /tap` sends, and `kproxy tap` reads.

A line with `lost` says how many were left out since the last one, because the reader was too slow. An empty line says
that kproxy is still there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kproxy.proxy.relay.observer import Exchange


@dataclass(frozen=True, slots=True)
class SessionLabels:
    """The session in which something passes: the cluster's name, the node's label ("bootstrap" where it is not known),
    and the client's address."""

    cluster: str
    node: str
    client: str


@dataclass(frozen=True, slots=True)
class ObservedExchange:
    """An exchange, in which session, and when: seconds since 1970."""

    time: float
    where: SessionLabels
    exchange: Exchange


def format_line(observed: ObservedExchange) -> bytes:
    """One line. Names of clients were escaped when they were read."""
    exchange, where = observed.exchange, observed.where
    value: dict[str, Any] = {
        "time": round(observed.time, 6),
        "cluster": where.cluster,
        "node": where.node,
        "client": where.client,
        "client_id": exchange.client_id,
        "software": exchange.software,
        "api": exchange.api,
        "version": exchange.version,
        "request_bytes": exchange.request_size,
        "response_bytes": exchange.response_size,
        "seconds": None if exchange.seconds is None else round(exchange.seconds, 6),
        "error": exchange.error,
    }
    if exchange.group:
        value["group"] = exchange.group
    if exchange.rewritten:
        value["rewritten"] = [{"from": before, "to": after} for before, after in exchange.rewritten]
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def format_lost(count: int) -> bytes:
    """The line that says that so many are missing."""
    return json.dumps({"lost": count}).encode() + b"\n"


def parse_line(line: bytes) -> Mapping[str, Any]:
    """A line, as it was written; empty for one that says nothing. Raises ValueError."""
    value = json.loads(line) if line.strip() else {}
    if not isinstance(value, dict):
        raise ValueError("a line of kproxy's tap is no JSON object")
    return value
