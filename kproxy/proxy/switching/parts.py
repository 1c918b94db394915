"""Parts: some clients of a cluster, named by their client ids, that are switched by themselves. Pure.

A part and a cluster without it are two *units*: each has a state of its own (`participant`), and routes its clients to
an upstream of its own. The names of units:

    default           the cluster, and all of its clients that belong to no part
    default/reports   its part `reports`

Client ids are compared as kproxy shows them: escaped, and cut after 100 characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from kproxy.base.printable import one_line

MAX_PARTS = 50
"""Parts of one cluster."""
MAX_CLIENT_IDS = 1_000
MAX_BYTES = 32 * 1024
"""The size of all client ids of one part, as JSON."""
MAX_CLIENT_ID = 100
ANY_SUFFIX, NUMBER_SUFFIX = "*", "#"
_BETWEEN = "/"


@dataclass(frozen=True, slots=True)
class Part:
    """Some clients of a cluster.

    `clients` are patterns of client ids. A pattern that ends with `*` stands for all client ids with this prefix, and
    one that ends with `#` for those that have a number after the prefix.
    """

    name: str
    clients: tuple[str, ...]

    def has(self, client_id: str) -> bool:
        """Return True if a client with this id belongs to the part."""
        return any(_matches(pattern, client_id) for pattern in self.clients)


def _matches(pattern: str, client_id: str) -> bool:
    if pattern == client_id:
        return True
    prefix = pattern[:-1]
    if not client_id.startswith(prefix):
        return False
    suffix = client_id[len(prefix) :]
    return pattern.endswith(ANY_SUFFIX) or (pattern.endswith(NUMBER_SUFFIX) and suffix.isascii() and suffix.isdigit())


def covers(patterns: Collection[str], pattern: str) -> bool:
    """Return True if each client id of a pattern is one of these patterns too."""
    return Part("", tuple(patterns)).has(pattern) or any(
        each.endswith(ANY_SUFFIX) and pattern.startswith(each[:-1]) for each in patterns
    )


def unit_name(cluster: str, part: str = "") -> str:
    """Return the name of a part as a unit; for part "", that of the cluster without its parts."""
    return f"{cluster}{_BETWEEN}{part}" if part else cluster


def split_unit(name: str) -> tuple[str, str]:
    """Return the cluster and the part of a unit; the part is "" for the cluster itself."""
    cluster, _, part = name.partition(_BETWEEN)
    return cluster, part


def check_part(part: Part) -> None:
    """Raise ValueError, with one line, if a part must not have this name or these client ids."""
    if not re.fullmatch(r"[a-z0-9-]{1,63}", part.name):
        raise ValueError("the name of a part has 1 to 63 of a-z, 0-9 and -")
    if not part.clients:
        raise ValueError(f"part {part.name} has no client ids")
    if len(part.clients) > MAX_CLIENT_IDS or len(json.dumps(part.clients)) > MAX_BYTES:
        raise ValueError(
            f"part {part.name} has more than {MAX_CLIENT_IDS} client ids, or they are longer than kproxy keeps"
        )
    for client in part.clients:
        if not client or len(client) > MAX_CLIENT_ID or one_line(client, MAX_CLIENT_ID) != client:
            raise ValueError(f"part {part.name}: a client id has 1 to {MAX_CLIENT_ID} printable characters")
        if client in (ANY_SUFFIX, NUMBER_SUFFIX):
            raise ValueError(f"part {part.name}: {client} alone matches all clients, or none in particular")


def overlap_problem(part: Part, others: Iterable[Part]) -> str:
    """Return why this part overlaps with one of the others, or "".

    A client must not belong to two parts.
    """
    for other in others:
        for client in part.clients:
            for other_pattern in other.clients:
                if _overlap(client, other_pattern):
                    return f"client id {client} is in part {other.name} already" + (
                        "" if client == other_pattern else f", as {other_pattern}"
                    )
    return ""


def _overlap(pattern: str, other_pattern: str) -> bool:
    if _matches(pattern, other_pattern) or _matches(other_pattern, pattern):
        return True
    prefix, other_prefix = (each[:-1] for each in (pattern, other_pattern))
    if not {pattern[-1:], other_pattern[-1:]} <= {ANY_SUFFIX, NUMBER_SUFFIX}:
        return False
    # Of two patterns with a prefix, the shorter prefix covers the longer one, whatever their ends are: that errs on the
    # safe side.
    return prefix.startswith(other_prefix) or other_prefix.startswith(prefix)
