"""Many idempotent librdkafka producers, as a process: each writes a record at intervals until its input ends.

python -m bench.heldjob TOPIC PARTITIONS COUNT BOOTSTRAP…   prints "flows" when all have written; at its end JSON
"""

from __future__ import annotations

import json
import select
import sys
import time
from typing import Any

from confluent_kafka import Producer

_PAUSE = 0.1


def run(topic: str, partitions: int, count: int, bootstraps: list[str]) -> dict[str, Any]:
    """Return how many records were acknowledged, the errors of the others, and the longest wait of one."""
    outcome: dict[str, Any] = {"acked": 0, "failed": [], "longest_s": 0.0}
    wrote: set[int] = set()

    def send(number: int, turn: int) -> None:
        sent = time.monotonic()

        def done(error: object, _: object) -> None:
            if error is not None:
                outcome["failed"].append(str(error))
                return
            outcome["acked"] += 1
            outcome["longest_s"] = max(outcome["longest_s"], round(time.monotonic() - sent, 3))
            wrote.add(number)

        producers[number].produce(topic, f"{number}-{sent}", partition=(number + turn) % partitions, on_delivery=done)

    producers = [
        Producer(
            {
                "bootstrap.servers": bootstraps[number % len(bootstraps)],
                "client.id": f"p{number}",
                "enable.idempotence": True,
                "log_level": 0,
            }
        )
        for number in range(count)
    ]
    announced, turn = False, 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        began = time.monotonic()
        for number, producer in enumerate(producers):
            send(number, turn)
            producer.poll(0)
        turn += 1
        if not announced and len(wrote) == count:
            announced = True
            sys.stdout.write("flows\n")
            sys.stdout.flush()
        time.sleep(max(0.0, _PAUSE - (time.monotonic() - began)))
    for producer in producers:
        producer.flush(120)
    return outcome


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])) + "\n")
