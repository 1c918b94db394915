"""Features in ApiVersions responses (KIP-584): a level that needs a capped version is lowered.

Clients choose their requests not by API versions alone but by a few of these levels too. With `transaction.version` 2
(KIP-890) a producer leaves out AddPartitionsToTxn, because Produce from version 12 on does its work. If kproxy caps
Produce below 12 and does not lower the feature, a producer sends Produce 11 without it, and the broker answers with
INVALID_TXN_STATE. Other features (`metadata.version`, `group.version`, …) either concern only brokers, or add APIs of
their own, by which clients decide.

The length stays the same: only the levels, int16 each, change.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct

from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.primitives import Underflow, read_string, read_uvarint, skip_tags

_SUPPORTED, _FINALIZED = 0, 2  # tags of ApiVersions responses from version 3 on
_LEVELS = Struct(">hh")

_NAME = b"transaction.version"
# By level, the lowest versions with which it can be used; level 1 changes only what brokers write to their own topic.
_NEEDS: Mapping[int, Mapping[int, int]] = {
    0: {}, 1: {}, 2: {ApiKey.PRODUCE: 12, ApiKey.TXN_OFFSET_COMMIT: 5, ApiKey.END_TXN: 5},
}  # fmt: skip
# Any of these a level above may need, which kproxy does not know, in the newest version that the broker has.
_APIS = frozenset({ApiKey.PRODUCE, ApiKey.INIT_PRODUCER_ID, ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT})


def _is_usable(level: int, capped: Mapping[int, int]) -> bool:
    """Return whether a level can be used.

    `capped` is API key → the newest version left, -1 for none, for each API that was capped.
    """
    if level > max(_NEEDS):
        return _APIS.isdisjoint(capped)
    return all(capped.get(key, version) >= version for key, version in _NEEDS.get(level, {}).items())


def limit_level(level: int, capped: Mapping[int, int]) -> int:
    """Return the highest usable level up to this one."""
    candidates: list[int] = [level, *range(min(level, max(_NEEDS) + 1))]
    return max(candidate for candidate in candidates if _is_usable(candidate, capped))


def lower_levels(tail: bytes, capped: Mapping[int, int]) -> bytes:
    """Return the part of an ApiVersions response (version 3 or newer) after the API versions, with levels lowered.

    It stays the same unless one of the capped APIs matters to the feature. Raises WireError or Underflow if it is
    malformed.
    """
    if _APIS.isdisjoint(capped):
        return tail
    edited = bytearray(tail)
    end = len(edited)
    count, at = read_uvarint(edited, 4, end)  # after the throttle time
    for _ in range(count):
        tag, at = read_uvarint(edited, at, end)
        size, at = read_uvarint(edited, at, end)
        if at + size > end:
            raise Underflow
        if tag in (_SUPPORTED, _FINALIZED):
            _lower_levels(edited, at, at + size, capped, highest_first=tag == _FINALIZED)
        at += size
    return bytes(edited)


def _lower_levels(edited: bytearray, at: int, end: int, capped: Mapping[int, int], *, highest_first: bool) -> None:
    """Lower the levels in a compact array of name, two levels, tags.

    The levels are lowest and highest supported, or highest and lowest finalized.
    """
    count, at = read_uvarint(edited, at, end)
    for _ in range(count - 1):
        name, at = read_string(edited, at, end, compact=True, nullable=False)
        if end - at < _LEVELS.size:
            raise Underflow
        levels = _LEVELS.unpack_from(edited, at)
        if name == _NAME:
            limit = limit_level(levels[0 if highest_first else 1], capped)
            _LEVELS.pack_into(edited, at, *(min(level, limit) for level in levels))
        at = skip_tags(edited, at + _LEVELS.size, end)
