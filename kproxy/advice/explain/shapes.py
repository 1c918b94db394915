"""The shapes of records: their bytes without the times, counts and ids that no answer depends on (pure).

A log has most of its records many times, and they differ in such numbers only. So each shape is examined once. An address,
a node's id, a size, an error's code and all other numbers that an answer may show stay in the shape.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

_Examined = TypeVar("_Examined")

# The shapes that are kept. One has some hundred bytes with what was found in it.
_MOST_SHAPES = 4096

# The first digit comes before the conditions, because the search for a class of characters is fast.
_VARYING = re.compile(
    rb"\d(?:"
    rb"(?<![\w.:/@-]\d)(?:"
    rb"(?:\d{3}[-/]\d\d[-/]\d\d[T ]\d)?\d:\d\d:\d\d(?:[.,]\d{1,9})?(?![\w.:]{0,8}[a-z])"  # a time
    rb"|\d{0,11}(?= ?ms\b| s\b| seconds| attempts))"
    rb"|(?<=%[3-7]\|\d)\d{9}\.\d{3}(?=\|)"  # librdkafka's time
    rb"|(?<=orrelation id \d)\d{0,9}(?![\d:]| :)"
    rb"|(?:(?<=orrelationId[=:]\d)|(?<=orrelationId\":\d)|(?<=retryCount\":\d)|(?<=retryTime\":\d))\d{0,9}"
    rb"|(?:(?<=offset[ =]\d)|(?<=epoch[ =]\d)|(?<=eneration \d))\d{0,18}"
    rb"|(?<=tcp \d)[0-9.:]{8,20}(?=->)"  # the client's own end of a connection, as Go prints it
    rb")"
)


def shape_of(record: bytes) -> bytes:
    """Return a record with 0 in place of each number that varies."""
    return _VARYING.sub(b"0", record)


class ShapeCache(Generic[_Examined]):
    """Keeps what an examination found in the shapes of late, and no byte of the records."""

    def __init__(self, most: int = _MOST_SHAPES) -> None:
        self._most = most
        self._by_digest: OrderedDict[bytes, _Examined] = OrderedDict()

    def get(self, record: bytes, state: bytes, examine: Callable[[], _Examined]) -> _Examined:
        """Return what `examine` finds in a record; `state` is what its result depends on beside the record."""
        digest = hashlib.blake2b(shape_of(record), digest_size=16, salt=state).digest()
        if digest in self._by_digest:
            self._by_digest.move_to_end(digest)
            return self._by_digest[digest]
        examined = self._by_digest[digest] = examine()
        if len(self._by_digest) > self._most:
            self._by_digest.popitem(last=False)
        return examined
