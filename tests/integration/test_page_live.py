"""The status page of a real kproxy before a real cluster, in a real browser."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kproxy.devcluster import DevCluster
from tests.harness.browser import Browser, NoAxe, Violation, chromium
from tests.harness.clients import consumer, create_topic
from tests.harness.misbehaving import delaying, sending
from tests.harness.process import Kproxy, wait_until
from tests.harness.rawclient import RawClient

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(chromium() is None, reason="chromium is not on this machine (apt-get install chromium)"),
]

Start = Callable[..., Kproxy]


@pytest.fixture
def browser() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


@contextmanager
def looking(browser: Browser, proxy: Kproxy) -> Iterator[None]:
    """The page is open and shows something. Nothing may be on the browser's console at the end."""
    browser.open(f"http://{proxy.admin}/")
    browser.wait_for("!document.querySelector('#main').hidden")
    yield
    browser.open("about:blank")  # before kproxy ends, which a browser complains of
    assert browser.console == []


def serious(browser: Browser) -> list[Violation]:
    """What axe-core finds."""
    try:
        return [one for one in browser.axe() if one.impact in ("serious", "critical")]
    except NoAxe as missing:
        pytest.skip(str(missing))


def test_a_broker_that_goes_and_comes_back(tmp_path: Path, browser: Browser) -> None:
    with DevCluster(brokers=3) as own, Kproxy(tmp_path / "kproxy", own.bootstrap) as proxy, ExitStack() as held:
        topic = create_topic(own.direct_bootstrap)
        held.enter_context(sending(proxy, topic, **{"client.id": "till"}))
        reader = held.enter_context(consumer(proxy.bootstrap, **{"group.id": "billing", "client.id": "billing-1"}))
        reader.subscribe([topic])
        held.enter_context(looking(browser, proxy))
        wait_until(lambda: reader.poll(0.1) and "billing" in browser.text("#groups"), "the group is shown")
        assert browser.text("#connection") == "live"
        assert "All 3 nodes can be reached" in browser.text("#cluster-words")
        assert "till" in browser.text("#clients-table")
        assert "confluent-kafka-python" in browser.text("#clients-table")
        browser.wait_for("document.querySelector('#apis').innerText.includes('Produce')")
        browser.click("#nodes [role=option]:nth-child(3)")
        assert "kproxy listens on" in browser.text("#selection")
        assert "kafka-2.cluster.internal:9092" in browser.text("#selection")
        assert serious(browser) == []

        own.kill(2)
        browser.wait_for(
            "document.querySelector('#cluster-words').innerText.includes('1 of 3 nodes cannot be reached')"
        )
        browser.wait_for("document.querySelector('#selection').innerText.includes('connection refused')")
        assert serious(browser) == []
        own.restart(2)
        browser.wait_for("document.querySelector('#cluster-words').innerText.includes('All 3 nodes can be reached')")


def test_findings_are_shown_with_cause_and_remedy(cluster: DevCluster, own_kproxy: Start, browser: Browser) -> None:
    with delaying(str(cluster.dial[2]), 0.3) as way, ExitStack() as held:
        proxy = own_kproxy(cluster.bootstrap, "--map", f"node:2={way}")
        topic = create_topic(cluster.direct_bootstrap)
        held.enter_context(sending(proxy, topic))
        local = proxy.node(1)["local"]
        leaked = [held.enter_context(RawClient(local)) for _ in range(110)]
        assert all(client.works() for client in leaked)
        tls = Producer({"bootstrap.servers": proxy.bootstrap, "security.protocol": "SSL", "log_level": 0})
        tls.poll(0.5)
        held.enter_context(looking(browser, proxy))
        browser.wait_for("document.querySelectorAll('.finding').length >= 3")
        del tls
        text = browser.text("#findings")
        assert "One node answers much slower than the others" in text
        assert "Node 2 answers Produce" in text
        assert "Node 1 has 110 sessions of client id raw." in text
        assert "the client spoke TLS" in text
        browser.js("document.querySelectorAll('.finding details').forEach(one => one.open = true)")
        assert "Close each producer, consumer and admin client" in browser.text("#findings")
        assert browser.js("document.title").startswith("kproxy: ")
        assert serious(browser) == []


def cpu_seconds(proxy: Kproxy) -> float:
    """What the process has used."""
    words = Path(f"/proc/{proxy.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def test_a_hundred_brokers_and_a_thousand_sessions(tmp_path: Path, browser: Browser, figures: list[str]) -> None:
    """librdkafka's mock cluster has the brokers. Each session asks something every few seconds."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 8192), hard), hard))
    mock = Producer({"test.mock.num.brokers": 100, "log_level": 0})
    there = [f"{one.host}:{one.port}" for one in mock.list_topics(timeout=30).brokers.values()]
    with Kproxy(tmp_path / "kproxy", ",".join(there[:3]), "--ready-requires", "one") as proxy, ExitStack() as held:
        wait_until(
            lambda: len([one for one in proxy.status()["nodes"] if one["bound"]]) == 100, "all brokers are known"
        )
        local = [node["local"] for node in proxy.status()["nodes"]]
        clients = [held.enter_context(RawClient(local[number % 100])) for number in range(1000)]
        assert all(client.works() for client in clients)
        before = time.monotonic(), cpu_seconds(proxy)
        time.sleep(5)
        alone = (cpu_seconds(proxy) - before[1]) / (time.monotonic() - before[0])
        held.enter_context(looking(browser, proxy))
        browser.wait_for("document.querySelector('#cluster-words').innerText.includes('100 nodes')"
                         " || document.querySelectorAll('#nodes [role=option]').length > 5")  # fmt: skip
        assert "1,000" in browser.text("body") or "1000" in browser.text("body")
        drawn = browser.js("document.querySelectorAll('*').length")
        before, updates = (time.monotonic(), cpu_seconds(proxy)), browser.js("kproxyPage.updates")
        browser.wait_for(f"kproxyPage.updates >= {updates + 5}")
        watched = (cpu_seconds(proxy) - before[1]) / (time.monotonic() - before[0])
        assert browser.js("document.querySelectorAll('*').length") <= drawn + 200
        assert browser.js("document.documentElement.scrollWidth <= window.innerWidth")
        browser.size(320, 800)
        assert browser.js("document.documentElement.scrollWidth <= window.innerWidth")
        figures.append(
            f"the page with 100 brokers and 1,000 sessions: kproxy uses {watched * 100:.1f} % of a core while somebody "
            f"looks, {alone * 100:.1f} % while nobody does; {drawn} elements"
        )
    del mock
