"""The status page of a real kproxy before a real cluster, in a real browser."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kproxy.advice import remedies
from kproxy.base.faults import Fault
from kproxy.dev.devcluster import DevCluster
from tests.harness.clients.browser import Browser, NoAxe, Violation, chromium
from tests.harness.clients.misbehaving import delaying, sending
from tests.harness.clients.rawclient import RawClient
from tests.harness.clients.spark import PASSWORD, cluster_with_login
from tests.harness.process import Kproxy, wait_until
from tests.harness.topics import consumer, create_topic, leaders

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(chromium() is None, reason="chromium is not on this machine (apt-get install chromium)"),
]


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


@pytest.mark.matrix
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
        reader.list_topics(timeout=60)
        browser.click("#clients [role=option][aria-label^=billing]")
        received = f"kafka-2.cluster.internal:9092 is at {proxy.node(2)['local']}"
        browser.wait_for(f"document.querySelector('#selection-facts').innerText.includes('{received}')")
        browser.click("#nodes [role=option]:nth-child(3)")
        assert serious(browser) == []

        own.kill(2)
        browser.wait_for(
            "document.querySelector('#cluster-words').innerText.includes('1 of 3 nodes cannot be reached')"
        )
        browser.wait_for("document.querySelector('#selection').innerText.includes('connection refused')")
        command = f"kproxy doctor -b {own.bootstrap}"
        browser.wait_for(f"document.querySelector('.finding:first-child pre').textContent.includes('{command}')")
        assert serious(browser) == []
        # Once the others lead its partitions, no client asks for metadata for minutes: kproxy has to ask itself.
        own.wait_fenced(2)
        reader.list_topics(timeout=60)
        browser.wait_for("document.querySelector('#findings').innerText.includes('not in the cluster')")
        own.restart(2)
        browser.wait_for("document.querySelector('#cluster-words').innerText.includes('All 3 nodes can be reached')")


def test_every_finding_is_shown_with_cause_and_remedy(tmp_path: Path, browser: Browser) -> None:
    """One client for each fault, all at once: broker 2 is slow, broker 3 goes, and clients have to log in."""
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "spark"}
    right = {**login, "sasl.password": PASSWORD}
    with cluster_with_login() as own, delaying(str(own.dial[2]), 1) as way, ExitStack() as held:
        topic = create_topic(own.direct_bootstrap)
        lonely = create_topic(own.direct_bootstrap, partitions=6, replicas=1)
        lost = [partition for partition, node in leaders(own.direct_bootstrap, lonely).items() if node == 3]
        maps = [word for node in (1, 2, 3) for word in ("--map", f"node:{node}={way if node == 2 else own.dial[node]}")]
        proxy = held.enter_context(Kproxy(tmp_path / "kproxy", own.bootstrap, *maps))
        held.enter_context(sending(proxy, topic, **right))
        held.enter_context(sending(proxy, lonely, partitions=6, **right, **{"client.id": "orders"}))
        local = wait_until(lambda: proxy.node(1), "kproxy learns of the brokers from a client")["local"]
        leaked = [held.enter_context(RawClient(local)) for _ in range(110)]
        assert all(client.works() for client in leaked)
        settings = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_plain_username": "spark",
                    "sasl_plain_password": PASSWORD}  # fmt: skip
        command = [
            "-m",
            "tests.harness.clients.walled",
            proxy.bootstrap,
            topic,
            local.rpartition(":")[2],
            json.dumps(settings),
        ]
        held.enter_context(ended(subprocess.Popen([sys.executable, *command])))
        backoff = {"reconnect.backoff.ms": 200, "reconnect.backoff.max.ms": 500, "log_level": 0}
        wrong = {
            "bootstrap.servers": proxy.bootstrap,
            **login,
            **backoff,
            "sasl.password": "no",
            "client.id": "stubborn",
        }
        tls = {"bootstrap.servers": proxy.bootstrap, "security.protocol": "SSL", **backoff}
        others = [Producer(wrong), Producer(tls)]
        held.enter_context(looking(browser, proxy))
        for _ in range(12):
            with socket.create_connection(("127.0.0.1", int(proxy.bootstrap.rpartition(":")[2]))) as probe:
                probe.sendall(b"GET / HTTP/1.1\r\n\r\n")
        # At once: it is shown for 30 s.
        probed = json.dumps(remedies.remedy_of(Fault.CLIENT_NOT_KAFKA).title)
        browser.wait_for(f"document.querySelector('#findings').textContent.includes({probed})")
        browser.wait_for("document.querySelector('#events').textContent.includes(' ×12 since ')")
        for text in (
            "Node 2 answers Produce",
            "Node 1 has 110 sessions of client id raw.",
            "stubborn at 127.0.0.1 logs in and fails",
            "the client spoke TLS",
            "walled at 127.0.0.2 has asked for metadata",
        ):
            browser.wait_for(f"document.querySelector('#findings').textContent.includes({json.dumps(text)})")
        own.kill(3)
        finds = [f"cannot find a leader for {lonely}-{partition}" for partition in lost]
        shown = "document.querySelector('#findings').textContent"
        browser.wait_for(f"{json.dumps(finds)}.some(text => {shown}.includes(text))")
        browser.js("(more => more.hidden || more.click())(document.querySelector('#findings-more'))")
        for fault in (
            Fault.SLOW_NODE, Fault.CONNECTION_LEAK, Fault.CREDENTIALS_REFUSED, Fault.TLS_TO_PLAINTEXT,
            Fault.CLIENT_BLOCKED, Fault.NO_LEADER, Fault.BROKER_MISSING,
        ):  # fmt: skip
            remedy = remedies.remedy_of(fault)
            browser.wait_for(f"{shown}.includes({json.dumps(remedy.title)})")
            text = browser.js(shown)
            assert all(part.replace("`", "") in text for part in (remedy.cause, remedy.check, remedy.fix))
        assert PASSWORD not in browser.js("document.documentElement.outerHTML")
        assert serious(browser) == []
        del others


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """The process runs until then."""
    try:
        yield
    finally:
        process.kill()
        process.wait()


def cpu_seconds(proxy: Kproxy) -> float:
    """What the process has used."""
    words = Path(f"/proc/{proxy.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.matrix
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
        time.sleep(2)  # there is nothing to wait for: this is the time in which its CPU is measured
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
