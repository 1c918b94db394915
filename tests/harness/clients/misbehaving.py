"""Clients, and forwarders to brokers, with behaviour that kproxy's page shows as a finding."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from confluent_kafka import KafkaException, Producer

from tests.harness.process import Kproxy
from tests.harness.servers.peers import Peer


@contextmanager
def delaying(target: str, seconds: float) -> Iterator[str]:
    """Return the address of a forwarder that delays each answer of the target."""
    host, _, port = target.rpartition(":")

    def behave(client: socket.socket) -> None:
        with socket.create_connection((host, int(port))) as broker:

            def back() -> None:
                with suppress(OSError):
                    while data := broker.recv(65536):
                        time.sleep(seconds)
                        client.sendall(data)

            threading.Thread(target=back, daemon=True).start()
            while data := client.recv(65536):
                broker.sendall(data)

    with Peer(behave) as peer:
        yield peer.address


@contextmanager
def sending(proxy: Kproxy, topic: str, partitions: int = 3, **settings: Any) -> Iterator[None]:
    """Run a librdkafka producer that sends to all partitions, until the end of the block.

    It goes on after an error of the client, so that a moment without metadata does not end it.
    """
    stop = threading.Event()
    producer = Producer({"bootstrap.servers": proxy.bootstrap, "linger.ms": 5, "log_level": 0, **settings})

    def send() -> None:
        number = 0
        while not stop.is_set():
            with suppress(BufferError, KafkaException):
                producer.produce(topic, b"record %d" % number, partition=number % partitions)
            producer.poll(0)
            number += 1
            stop.wait(0.005)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10)
        producer.purge()
        producer.flush(10)
