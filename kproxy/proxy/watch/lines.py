"""Exchanges as lines of JSON: `GET /tap` sends them, and `kproxy tap` reads them.

A line with `lost` has the number of exchanges that were left out since the last line, because the reader was too slow.
An empty line is a sign of life of kproxy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kproxy.proxy.relay.observer import Exchange


@dataclass(frozen=True, slots=True)
class SessionLabels:
    """The labels of a session: the cluster's name, the node's label ("bootstrap" if unknown), the client's address."""

    cluster: str
    node: str
    client: str


@dataclass(frozen=True, slots=True)
class ObservedExchange:
    """An exchange, its session, and its Unix time."""

    time: float
    labels: SessionLabels
    exchange: Exchange


def format_line(observed: ObservedExchange) -> bytes:
    """Return the exchange as one line.

    Client ids and other names were escaped when they were read.
    """
    exchange, labels = observed.exchange, observed.labels
    value: dict[str, Any] = {
        "time": round(observed.time, 6),
        "cluster": labels.cluster,
        "node": labels.node,
        "client": labels.client,
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
    """Return the line that says how many exchanges are missing."""
    return json.dumps({"lost": count}).encode() + b"\n"


def parse_line(line: bytes) -> Mapping[str, Any]:
    """Read a line; an empty line gives an empty mapping.

    Raises ValueError.
    """
    value = json.loads(line) if line.strip() else {}
    if not isinstance(value, dict):
        raise ValueError("a line of kproxy's tap is no JSON object")
    return value
