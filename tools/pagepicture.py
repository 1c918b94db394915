"""Draws docs/images: the status page of a real kproxy before a real cluster, in a browser.

    python -m tools.pagepicture

It uses ports 19091 to 19098, so no other kproxy may run on them. Broker 3 is behind a slow connection, a client leaks
connections, and another client speaks TLS.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Producer

from kproxy.dev.devcluster import DevCluster
from tests.harness.clients.browser import Browser
from tests.harness.clients.misbehaving import delaying, sending
from tests.harness.clients.rawclient import RawClient
from tests.harness.process import Kproxy
from tests.harness.topics import consumer, create_topic

IMAGES = Path(__file__).parents[1] / "docs" / "images"
_SECONDS = 100  # of history


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with ExitStack() as held:
        home = Path(held.enter_context(tempfile.TemporaryDirectory()))
        own = held.enter_context(DevCluster(brokers=3, advertised="kafka-{id}.prod.internal:9092"))
        way = held.enter_context(delaying(str(own.dial[3]), 0.12))
        arguments = ["--listen", "127.0.0.1:19092", "--admin", "127.0.0.1:19091", "--map", f"node:3={way}"]
        proxy = held.enter_context(Kproxy(home, own.bootstrap, *arguments, ready=False))
        proxy.admin = "127.0.0.1:19091"
        proxy.bootstrap = "127.0.0.1:19092"
        proxy.wait_ready()
        topic = create_topic(own.direct_bootstrap)
        for name in ("orders-web", "orders-mobile"):
            held.enter_context(sending(proxy, topic, **{"client.id": name}))
        group = {"group.id": "billing", "client.id": "billing-1"}
        reader = held.enter_context(consumer(proxy.bootstrap, **group))
        reader.subscribe([topic])
        leaked = [held.enter_context(RawClient(proxy.node(1)["local"])) for _ in range(120)]
        assert all(client.works() for client in leaked)
        browser = held.enter_context(Browser(1280, 900))
        browser.open(f"http://{proxy.admin}/")
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            reader.poll(0.2)
        tls = Producer({"bootstrap.servers": proxy.bootstrap, "security.protocol": "SSL", "log_level": 0})
        tls.poll(3)
        browser.wait_for("document.querySelectorAll('.finding').length >= 3")
        browser.click("#nodes [role=option]:nth-child(3)")
        for name, width, height, dark in (
            ("page-light", 1280, 1150, False),
            ("page-dark", 1280, 1150, True),
            ("page-narrow", 320, 1150, False),
        ):
            browser.size(width, height)
            browser.dark(dark)
            reader.poll(1.5)
            browser.js("scrollTo(0, 0)")
            browser.screenshot(IMAGES / f"{name}.png")
        del tls
        browser.open("about:blank")


if __name__ == "__main__":
    main()
