"""Producers that are led back to a cluster that knows them from before: transactional ones, with another epoch, after a
switch that was undone and at a rollback; and idempotent ones, with their sequence numbers. What they see stands in
docs/flip.md."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.switch.client_effects import check_clients
from kproxy.migrate.switch.kproxy_replies import ConnectedClient
from kproxy.migrate.switch.transactions import read_transactional_ids
from tests.harness.clients.going import Going, java, python
from tests.harness.clusters.twosides import TwoSides
from tests.harness.migration.carried import in_log
from tests.harness.migration.led import Led
from tests.harness.migration.moving import topics
from tests.harness.migration.switched import BLUE
from tests.harness.process import wait_until
from tests.harness.topics import unique
from tests.matrix.languages import Go

pytestmark = [pytest.mark.integration, pytest.mark.matrix, pytest.mark.timeout(600)]


@pytest.fixture
def topic(sides: TwoSides) -> str:
    name = unique("fenced")
    topics(sides.source, {name: 1}, 1)
    return name


def start(led: Led, library: str, topic: str, transactional_id: str) -> Going:
    words = ["transact", topic, "1", "20", "20"]
    named = {"bootstrap.servers": led.kproxy.bootstrap, "transactional.id": transactional_id}
    log = led.logs / f"{unique(library)}.log"
    if library == "java":
        return led.start(java(led.sides.clusters[0].programs, words, named, log))
    if library == "confluent":
        return led.start(python(library, words, named, log))
    command = Go("franz-go", "", program="going_franz").command()
    return led.start(Going([*command, *words, *(f"{name}={value}" for name, value in named.items())], log))


def begun(client: Going) -> None:
    """Wait until it is within a transaction, most likely."""
    client.wait_more("committed", 2)
    client.wait_more("acked", 5)


def undone(led: Led, topic: str, client: Going) -> None:
    """A switch that is undone when it has ended what was open."""
    led.kproxy.hold()
    led.end_transactions()
    led.kproxy.must("undo")


def rolled_back(led: Led, topic: str, client: Going) -> None:
    """A switch, and another one back. What was written meanwhile is not copied back here."""
    led.switch(topic)
    begun(client)
    led.kproxy.hold("back", to=BLUE)
    Led(TwoSides(led.sides.target, led.sides.source), led.kproxy, led.logs).end_transactions()
    for step in ("flip", "commit", "release"):
        led.kproxy.must(step, "back")


def known(bootstrap: str) -> set[str]:
    with Admin(bootstrap) as admin:
        return read_transactional_ids(admin, time.monotonic() + 60) or set()


Happens = Callable[[Led, str, Going], None]


@pytest.mark.parametrize("library", ["java", "confluent", "franz-go"])
@pytest.mark.parametrize("happens", [undone, rolled_back], ids=["undone", "rolled-back"])
def test_a_fenced_producer_leaves_no_half_of_a_transaction(
    led: Led, topic: str, library: str, happens: Happens
) -> None:
    name = unique("tx")
    client = start(led, library, topic, name)
    led.copy(topic)
    begun(client)
    happens(led, topic, client)
    wait_until(lambda: client.said("died"), "it has ended")
    assert "FENCED" in " ".join(*client.said("died")).upper()
    knows = [name in known(bootstrap) for bootstrap in (led.sides.source, led.sides.target)]
    assert knows == [True, happens is rolled_back], "what the preflight of a switch warns of"
    kept = [number for first, last in client.said("committed") for number in range(int(first), int(last) + 1)]
    found = [in_log(bootstrap, topic, 1)[0] for bootstrap in (led.sides.source, led.sides.target)]
    assert [one == sorted(set(one)) for one in found] == [True, True]
    assert sorted({*found[0], *found[1]}) == kept
    # Started again, it goes on, in the same place.
    another = unique("again")
    topics(led.sides.source, {another: 1}, 1)
    again = start(led, library, another, name)
    again.wait_more("committed", 2)
    again.end()
    assert in_log(led.sides.source, another, 1)[0] == [
        number for first, last in again.said("committed") for number in range(int(first), int(last) + 1)
    ]


IDEMPOTENT = {
    "java": {"enable.idempotence": "true"},
    "confluent": {"enable.idempotence": "true"},
    "kafka_python": {"enable.idempotence": "true", "acks": "all", "retries": "1000"},
    "franz-go": {},  # it is one
}


def idempotent(led: Led, topic: str, library: str) -> Going:
    words, log = ["produce", topic, "1", "20"], led.logs / f"{unique(library)}.log"
    named = {"bootstrap.servers": led.kproxy.bootstrap, "client.id": "writer", **IDEMPOTENT[library]}
    if library == "java":
        return led.start(java(led.sides.clusters[0].programs, words, named, log))
    if library == "franz-go":
        given = [f"{name}={value}" for name, value in named.items()]
        return led.start(Going([*Go("franz-go", "", program="going_franz").command(), *words, *given], log))
    return led.start(python(library, words, named, log))


@pytest.mark.parametrize("library", IDEMPOTENT)
def test_an_idempotent_producer_that_is_led_back(led: Led, topic: str, library: str) -> None:
    """It meets its own former sequence numbers: the preflight says of each library what it does then."""
    client = idempotent(led, topic, library)
    client.wait_more("acked", 20)
    (seen,) = (one for one in led.kproxy.seen()["clients"] if one["client"] == "writer")
    assert seen["produces"] == "idempotent"
    led.switch(topic)
    client.wait_more("acked", 20)
    (seen,) = (one for one in led.kproxy.seen()["clients"] if one["client"] == "writer")
    assert seen["produces"] == "idempotent"
    told = ConnectedClient("writer", "127.0.0.1", seen["software"], writes=True, produces=seen["produces"])
    warned = [one.subject for one in check_clients([told], switched_before=True) if "both sides" in one.text]
    led.kproxy.hold("back", to=BLUE)
    for step in ("flip", "commit", "release"):
        led.kproxy.must(step, "back")
    if library == "confluent":
        assert warned == ["librdkafka"]
        wait_until(lambda: client.said("died"), "it has ended")
        assert client.said("died") == [["_FATAL"]]
        return
    client.wait_more("acked", 20)
    client.end()
    failed = client.said("failed")
    if library == "kafka_python":
        assert warned == ["kafka-python"]
        assert {why for _, why in failed} == {"OutOfOrderSequenceNumberError"}
    else:
        assert (warned, failed) == ([], [])
    kept = [int(number) for number, *_ in client.said("acked")]
    found = [int(one) for bootstrap in (led.sides.source, led.sides.target) for one in in_log(bootstrap, topic, 1)[0]]
    lost = {int(number) for number, *_ in failed}
    assert set(kept) == set(found), "what failed is not there, and all that was acknowledged is"
    assert not lost & set(found)
