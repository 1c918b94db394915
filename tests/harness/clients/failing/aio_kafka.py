"""A producer of aiokafka: BOOTSTRAP TOPIC, settings and a CA file as JSON."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import sys

from aiokafka import AIOKafkaProducer

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")


async def main() -> None:
    """Send one record; an exception ends the process as usual."""
    bootstrap, topic, settings = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    ca = settings.pop("ca", None)
    if settings["security_protocol"].endswith("SSL"):
        settings["ssl_context"] = ssl.create_default_context(cafile=ca)
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, client_id="orders", **settings)
    try:
        await producer.start()
        await producer.send_and_wait(topic, b"record")
    finally:
        await producer.stop()


if __name__ == "__main__":
    asyncio.run(main())
