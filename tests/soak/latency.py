"""How long honest requests take: `python -m tests.soak.latency HOST:PORT FILE` asks until its stdin is closed.

A process of its own, so that no thread of a test stands in its way. It asks for ApiVersions on one connection, every
20 ms whether or not the last answer was late: a request counts from when it was due, so a pause of the proxy counts for
all requests that it delays (and not for one alone).
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.harness.clients.rawclient import API_VERSIONS, RawClient

_EVERY = 0.02  # seconds
_CONNECT_AGAIN = 0.05
_PATIENCE = 120  # more than one request may take


class Samples:
    """Pairs of when a request was due, by the clock of `time.monotonic`, and the seconds until its answer."""

    def __init__(self, flat: Sequence[float]) -> None:
        self._rows = list(zip(flat[::2], flat[1::2], strict=True))

    def within(self, spans: Sequence[tuple[float, float]]) -> list[float]:
        """The latencies of requests that were due in one of the spans."""
        return [latency for due, latency in self._rows if any(begin <= due < end for begin, end in spans)]


class Prober:
    """A process that asks; `stop` gives what it measured."""

    def __init__(self, where: str, file: Path) -> None:
        self._file = file
        command = [sys.executable, "-m", "tests.soak.latency", where, str(file)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE)

    def stop(self) -> Samples:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(_PATIENCE) == 0
        flat = array("d")
        flat.frombytes(self._file.read_bytes())
        return Samples(flat)


@contextmanager
def probing(where: str, file: Path) -> Iterator[Prober]:
    prober = Prober(where, file)
    try:
        yield prober
    finally:
        prober._process.kill()
        prober._process.wait()


def percentile(latencies: Sequence[float], part: float) -> float:
    """The latency that this part of all do not exceed; of none it is 0."""
    ordered = sorted(latencies)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else 0.0


def _ask(where: str, stopped: threading.Event) -> array[float]:
    samples = array("d")
    client: RawClient | None = None
    due = time.monotonic()
    while not stopped.is_set():
        due += _EVERY
        time.sleep(max(0.0, due - time.monotonic()))
        try:
            client = client or RawClient(where)
            client.ask(API_VERSIONS, 0)
        except (OSError, EOFError):  # it counts until it failed
            if client is not None:
                client.close()
            client = None
            time.sleep(_CONNECT_AGAIN)
        samples.extend((due, time.monotonic() - due))
    return samples


def main() -> None:
    where, file = sys.argv[1:]
    stopped = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        stopped.set()

    threading.Thread(target=wait, daemon=True).start()
    Path(file).write_bytes(_ask(where, stopped).tobytes())


if __name__ == "__main__":
    main()
