"""Clients of other languages at a kproxy that lets none of them change anything: each gets the error of an ACL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kproxy.dev.devcluster import DevCluster
from tests.harness.process import Kproxy
from tests.harness.programs.javac import NotInstalled
from tests.matrix.client import Client
from tests.matrix.clients import CLIENTS

pytestmark = pytest.mark.matrix

_TRIED = (
    "kafka-clients 3.9.2",
    "kafka-python 3",
    "aiokafka 0.1",
    "franz-go",
    "Sarama",
    "kafkajs",
    "rdkafka",
    "Kafka Str",
)

# aiokafka's admin client does not raise the errors of an answer, so a topic is missing later; kafkajs counts them only.
_OTHER_WORDS = {"aiokafka": "UnknownTopicOrPartitionError", "kafkajs": "Topic creation errors"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kproxy]:
    with (
        DevCluster(1) as cluster,
        Kproxy(tmp_path_factory.mktemp("guarded"), cluster.bootstrap, "--read-only") as kproxy,
    ):
        yield kproxy


@pytest.mark.parametrize("client", [client for client in CLIENTS if str(client).startswith(_TRIED)], ids=str)
def test_a_client_that_may_change_nothing_says_so(guarded: Kproxy, client: Client) -> None:
    """It ends with the error of an ACL, and does not wait for ever."""
    try:
        client.command()
    except NotInstalled as reason:
        pytest.skip(str(reason))
    before = guarded.metric("kproxy_requests_refused_total")
    outcome = client.run(guarded.bootstrap, "guarded-" + str(abs(hash(client))), 120)
    assert outcome.code not in (0, -1), outcome.errors[-2000:]
    words = next((words for library, words in _OTHER_WORDS.items() if library == client.library), "uthoriz")
    assert words in outcome.errors + outcome.output, outcome.errors[-2000:]
    assert guarded.metric("kproxy_requests_refused_total") > before
