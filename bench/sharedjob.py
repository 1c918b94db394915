"""Many librdkafka producers, as a process: each as fast as it may, for some seconds.

python -m bench.sharedjob TOPIC COUNT SECONDS BOOTSTRAP    prints "flows" when all have written; last one JSON object
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from confluent_kafka import Producer

_SIZE, _AHEAD = 1000, 200


def run(topic: str, count: int, seconds: float, bootstrap: str) -> dict[str, Any]:
    """Return the acknowledged bytes, and the 99th percentile of the time to an acknowledgement."""
    value, waits, wrote, flows = bytes(_SIZE), list[float](), set[int](), False
    ahead = [0] * count
    producers = [
        Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": 5,
                "log_level": 0,
                "client.id": f"p{number}",
                "acks": "all",
                "enable.idempotence": True,
            }
        )
        for number in range(count)
    ]

    def send(number: int) -> None:
        sent = time.perf_counter()

        def done(error: object, _: object) -> None:
            ahead[number] -= 1
            if error is None:
                wrote.add(number)
                waits.append(time.perf_counter() - sent)

        ahead[number] += 1
        producers[number].produce(topic, value, on_delivery=done)

    until = time.monotonic() + 120
    while time.monotonic() < until:
        for number, producer in enumerate(producers):
            while ahead[number] < _AHEAD:
                send(number)
            producer.poll(0)
        if not flows and len(wrote) == count:
            flows, until = True, time.monotonic() + seconds
            waits.clear()
            sys.stdout.write("flows\n")
            sys.stdout.flush()
    got = len(waits)
    waits.sort()
    for producer in producers:
        producer.purge()
    return {"bytes": got * _SIZE, "p99_ms": waits[got * 99 // 100] * 1000 if got else 0.0}


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])), flush=True)  # noqa: T201  # it is a program
