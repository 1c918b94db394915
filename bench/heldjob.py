"""Many librdkafka producers, as a process: idempotent, a record each every so often, until its input ends.

python -m bench.heldjob TOPIC COUNT BOOTSTRAP…      prints "flows" when all have written; last one JSON object
"""

from __future__ import annotations

import json
import select
import sys
import time
from typing import Any

from confluent_kafka import Producer

_PAUSE = 0.1


def run(topic: str, count: int, bootstraps: list[str]) -> dict[str, Any]:
    """What became of the records: how many were acknowledged, why others were not, the longest wait of one."""
    outcome: dict[str, Any] = {"acked": 0, "failed": [], "longest_s": 0.0}
    wrote: set[int] = set()

    def send(number: int) -> None:
        sent = time.monotonic()

        def done(error: object, _: object) -> None:
            if error is not None:
                outcome["failed"].append(str(error))
                return
            outcome["acked"] += 1
            outcome["longest_s"] = max(outcome["longest_s"], round(time.monotonic() - sent, 3))
            wrote.add(number)

        producers[number].produce(topic, f"{number}-{sent}", partition=number % 3, on_delivery=done)

    producers = [
        Producer(
            {
                "bootstrap.servers": bootstraps[number % len(bootstraps)], "client.id": f"p{number}",
                "enable.idempotence": True, "log_level": 0,
            }
        )
        for number in range(count)
    ]  # fmt: skip
    told = False
    while not select.select([sys.stdin], [], [], 0)[0]:
        began = time.monotonic()
        for number, one in enumerate(producers):
            send(number)
            one.poll(0)
        if not told and len(wrote) == count:
            told = True
            sys.stdout.write("flows\n")
            sys.stdout.flush()
        time.sleep(max(0.0, _PAUSE - (time.monotonic() - began)))
    for one in producers:
        one.flush(120)
    return outcome


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(sys.argv[1], int(sys.argv[2]), sys.argv[3:])) + "\n")
