"""Request rates, latencies and errors, as numbers of fixed size, whatever passes."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# Bounds of latencies, in seconds, each a fifth above the one before: a percentile is right to within a tenth.
_BOUNDS: tuple[float, ...] = tuple(0.00002 * math.pow(1.2, step) for step in range(90))
_MIDDLE = math.sqrt(1.2)
# Percentiles are of the last _WINDOW to 2 * _WINDOW seconds; errors of the last _MINUTE.
_WINDOW, _MINUTE = 10.0, 60.0


@dataclass(frozen=True, slots=True)
class LastError:
    """The last error; `code` is Kafka's, `time` a Unix time."""

    api: str
    code: int
    time: float


class Rates:
    """The rates of a node, an API or a client.

    `last_error` is the last response with an error code other than 0.
    """

    __slots__ = (
        "_before",
        "_errors",
        "_from_client",
        "_now",
        "_requests",
        "_shown",
        "_to_client",
        "_turned",
        "last_error",
    )

    def __init__(self) -> None:
        self._requests = self._from_client = self._to_client = 0  # since `second`
        self._shown = (0.0, 0.0, 0.0)
        self._now = [0] * (len(_BOUNDS) + 1)
        self._before: list[int] | None = None
        self._turned = float("-inf")
        self._errors: deque[tuple[float, int]] = deque(maxlen=600)  # in which second, how many
        self.last_error: LastError | None = None

    def add(self, request_size: int, response_size: int, seconds: float | None) -> None:
        """Count an exchange."""
        self._requests += 1
        self._from_client += request_size
        self._to_client += response_size
        if seconds is not None:
            self._now[bisect_left(_BOUNDS, seconds)] += 1

    def add_error(self, error: LastError) -> None:
        """Count the error of an exchange."""
        self.last_error = error
        if self._errors and int(self._errors[-1][0]) == int(error.time):
            self._errors[-1] = (error.time, self._errors[-1][1] + 1)
        else:
            self._errors.append((error.time, 1))

    def tick(self, elapsed: float, now: float) -> bool:
        """Close a period of `elapsed` seconds; return True if any exchange passed in it, or lately.

        `now` is a Unix time.
        """
        per_second = 1 / max(0.001, elapsed)
        counted = (self._requests, self._from_client, self._to_client)
        self._shown = (counted[0] * per_second, counted[1] * per_second, counted[2] * per_second)
        self._requests = self._from_client = self._to_client = 0
        while self._errors and now - self._errors[0][0] > _MINUTE:
            self._errors.popleft()
        if now - self._turned >= _WINDOW:
            self._turned = now
            self._before = self._now
            self._now = [0] * (len(_BOUNDS) + 1)
        return counted[0] > 0 or bool(self._errors) or self.samples > 0

    @property
    def requests(self) -> float:
        """Requests per second, in the last period that is over."""
        return self._shown[0]

    @property
    def samples(self) -> int:
        """The number of responses that the percentiles are computed from."""
        return sum(self._now) + (sum(self._before) if self._before else 0)

    def percentile(self, share: float) -> float | None:
        """Return a percentile of the latencies in seconds; None if there were no responses lately."""
        counts = self._now if self._before is None else [a + b for a, b in zip(self._now, self._before, strict=True)]
        rank, cumulated = share * sum(counts), 0
        if not rank:
            return None
        for index, count in enumerate(counts):
            cumulated += count
            if cumulated >= rank:
                return _BOUNDS[min(index, len(_BOUNDS) - 1)] / _MIDDLE
        return _BOUNDS[-1]

    def as_json(self, name: Callable[[int], str]) -> dict[str, Any]:
        """Return the rates as the page gets them; `name` returns the name of an error code."""
        p50, p99 = self.percentile(0.5), self.percentile(0.99)
        return {
            "requests": round(self._shown[0], 1),
            "from_client": round(self._shown[1]),
            "to_client": round(self._shown[2]),
            "p50": None if p50 is None else round(p50, 6),
            "p99": None if p99 is None else round(p99, 6),
            "errors": sum(count for _, count in self._errors),
            "last_error": error_json(self.last_error, name),
        }


def error_json(error: LastError | None, name: Callable[[int], str]) -> dict[str, Any] | None:
    """Return an error as the page gets it."""
    if error is None:
        return None
    return {"api": error.api, "code": error.code, "name": name(error.code), "time": round(error.time, 3)}
