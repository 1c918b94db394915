"""Parts: some clients of a cluster, named by their client ids, that are switched by themselves. Pure.

A part and a cluster without it are two *units*: each has a state of its own (`state`), and leads its clients to an
upstream of its own. What a unit is called:

    default           the cluster, and all of its clients that belong to no part
    default/reports   its part `reports`

Client ids are compared as kproxy shows them: escaped, and cut after 100 characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from kproxy.base.printable import one_line

MAX_PARTS = 50
"""Of one cluster."""
MAX_CLIENT_IDS = 1_000
MAX_BYTES = 32 * 1024
"""That all client ids of one part have together, as JSON."""
MAX_CLIENT_ID = 100
ANY_SUFFIX, NUMBER_SUFFIX = "*", "#"
_BETWEEN = "/"


@dataclass(frozen=True, slots=True)
class Part:
    """`clients`: client ids. One that ends with `*` stands for all that begin so, and one that ends with `#` for those
    that end with a number instead."""

    name: str
    clients: tuple[str, ...]

    def has(self, client_id: str) -> bool:
        """Whether a client with this id belongs to it."""
        return any(_matches(one, client_id) for one in self.clients)


def _matches(named: str, client_id: str) -> bool:
    if named == client_id:
        return True
    beginning = named[:-1]
    if not client_id.startswith(beginning):
        return False
    rest = client_id[len(beginning) :]
    return named.endswith(ANY_SUFFIX) or (named.endswith(NUMBER_SUFFIX) and rest.isascii() and rest.isdigit())


def unit_name(cluster: str, part: str = "") -> str:
    """What a part is called, or, for "", the cluster without its parts."""
    return f"{cluster}{_BETWEEN}{part}" if part else cluster


def split_unit(name: str) -> tuple[str, str]:
    """The cluster and the part of a unit."""
    cluster, _, part = name.partition(_BETWEEN)
    return cluster, part


def check_part(part: Part) -> None:
    """Raises ValueError, in one line, if there can be no such part."""
    if not re.fullmatch(r"[a-z0-9-]{1,63}", part.name):
        raise ValueError("the name of a part has 1 to 63 of a-z, 0-9 and -")
    if not part.clients:
        raise ValueError(f"part {part.name} has no client ids")
    if len(part.clients) > MAX_CLIENT_IDS or len(json.dumps(part.clients)) > MAX_BYTES:
        raise ValueError(
            f"part {part.name} has more than {MAX_CLIENT_IDS} client ids, or they are longer than kproxy keeps"
        )
    for one in part.clients:
        if not one or len(one) > MAX_CLIENT_ID or one_line(one, MAX_CLIENT_ID) != one:
            raise ValueError(f"part {part.name}: a client id has 1 to {MAX_CLIENT_ID} printable characters")
        if one in (ANY_SUFFIX, NUMBER_SUFFIX):
            raise ValueError(f"part {part.name}: {one} alone would be all clients, or nobody in particular")


def overlap_problem(part: Part, others: Iterable[Part]) -> str:
    """Why this part cannot be beside the others, as a client would belong to two; or ""."""
    for other in others:
        for one in part.clients:
            for theirs in other.clients:
                if _overlap(one, theirs):
                    return f"client id {one} is in part {other.name} already" + (
                        "" if one == theirs else f", as {theirs}"
                    )
    return ""


def _overlap(one: str, other: str) -> bool:
    if _matches(one, other) or _matches(other, one):
        return True
    first, second = (named[:-1] for named in (one, other))
    if not {one[-1:], other[-1:]} <= {ANY_SUFFIX, NUMBER_SUFFIX}:
        return False
    # Of two that stand for many, the shorter beginning has the longer one, whatever their ends say: that errs on the
    # safe side.
    return first.startswith(second) or second.startswith(first)
