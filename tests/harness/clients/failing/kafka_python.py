"""A producer of kafka-python: BOOTSTRAP TOPIC and settings as JSON."""

from __future__ import annotations

import json
import logging
import sys
import traceback
import warnings

warnings.simplefilter("ignore")
from kafka import KafkaProducer  # noqa: E402 - it warns when it is imported

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")

if __name__ == "__main__":
    bootstrap, topic, settings = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    try:
        producer = KafkaProducer(bootstrap_servers=bootstrap, client_id="orders", **settings)
        producer.send(topic, b"record").get(5)
    except Exception:  # noqa: BLE001 - whatever it is, a program would print it
        traceback.print_exc()
