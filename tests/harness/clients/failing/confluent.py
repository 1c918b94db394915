"""A producer of confluent-kafka: settings and a topic as JSON."""

from __future__ import annotations

import json
import sys

from confluent_kafka import Producer


def _tell(error: object) -> None:
    sys.stdout.write(f"delivery: {error}\n")


if __name__ == "__main__":
    producer = Producer(json.loads(sys.argv[1]))
    producer.produce(sys.argv[2], b"record", callback=lambda error, _: _tell(error))
    producer.flush(8)
