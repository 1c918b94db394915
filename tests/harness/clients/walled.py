"""A real client (kafka-python) on a machine whose firewall blocks one port of kproxy.

    python -m tests.harness.clients.walled BOOTSTRAP TOPIC PORT [JSON]

It sends a record to each partition again and again until it is ended; JSON has more settings of the client. The
firewall is simulated in this process: connections to the port are refused. The client connects from 127.0.0.2, as
another machine would. Every 30 s it starts again in the same process: on a loaded machine, kafka-python was seen to
try node 1 a few times only, and then no longer.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import socket
import sys
import time
from contextlib import suppress
from typing import Any


def main(bootstrap: str, topic: str, port: int, settings: dict[str, Any]) -> None:
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def elsewhere(self: socket.socket, address: Any) -> None:
        # A socket that does not block is connected again until it is.
        if self.family == socket.AF_INET and address[0].startswith("127.") and self.getsockname()[1] == 0:
            self.bind(("127.0.0.2", 0))

    def walled_connect(self: socket.socket, address: Any) -> None:
        if address[1] == port:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "a wall")
        elsewhere(self, address)
        connect(self, address)

    def walled_connect_ex(self: socket.socket, address: Any) -> int:
        if address[1] == port:
            return errno.ECONNREFUSED
        elsewhere(self, address)
        return connect_ex(self, address)

    socket.socket.connect = walled_connect  # type: ignore[method-assign]  # the wall
    socket.socket.connect_ex = walled_connect_ex  # type: ignore[method-assign]  # the wall
    from tests.harness.clients.kafka_python import KafkaProducer

    logging.basicConfig(level=logging.ERROR)
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, client_id="walled", max_block_ms=2000, retry_backoff_ms=200, linger_ms=0,
        reconnect_backoff_ms=200, reconnect_backoff_max_ms=1000, delivery_timeout_ms=5000, request_timeout_ms=4000,
        bootstrap_timeout_ms=240_000, **settings,
    )  # fmt: skip
    again = time.monotonic() + 30
    while time.monotonic() < again:
        for partition in range(3):
            with suppress(Exception):  # its point is that it cannot
                producer.send(topic, b"record", partition=partition).get(timeout=1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4]) if len(sys.argv) > 4 else {})
    os.execv(sys.executable, [sys.executable, "-m", "tests.harness.clients.walled", *sys.argv[1:]])
