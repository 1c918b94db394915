"""`kproxy explain` against what clients in Go and JavaScript say when things really go wrong."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.harness.clients.failing.attempt import output
from tests.harness.clients.failing.troubles import TROUBLES, Site, Trouble, judge, made
from tests.harness.programs.javac import NotInstalled
from tests.matrix.languages import Go, Node

pytestmark = pytest.mark.matrix

CLIENTS = {
    "kafkajs": Node("kafkajs", "2.2.4", program="failing_kafka_js.js"),
    "franz-go": Go("franz-go", "1", program="failing_franz"),
    "Sarama": Go("Sarama", "1", program="failing_sarama"),
    "kafka-go": Go("kafka-go", "0.4", program="failing_kafkago"),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with made(tmp_path_factory.mktemp("site")) as one:
        yield one


@cache
def command(client: str) -> list[str]:
    """The program, built once. Raises NotInstalled."""
    return list(CLIENTS[client].command())


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("trouble", TROUBLES, ids=str)
def test_what_a_client_says_is_explained(site: Site, trouble: Trouble, client: str, tmp_path: Path) -> None:
    try:
        words = command(client)
    except NotInstalled as error:
        pytest.skip(str(error))
    judge(trouble, client, output([*words, *trouble.attempt(site).arguments()], seconds=25))
