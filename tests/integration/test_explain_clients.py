"""`kproxy explain` against what real clients say when things really go wrong, whole and with their noise."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.advice.explain.explanation import explain
from kproxy.advice.remedies.remedy import Program
from kproxy.base.faults import Fault
from tests.harness.clients.failing.attempt import CLIENTS, Attempt
from tests.harness.clients.failing.troubles import TROUBLES, Site, Trouble, judge, made, tls
from tests.harness.process import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with made(tmp_path_factory.mktemp("site")) as one:
        yield one


# The others take minutes: they need a Java for each try, wait for long, or say the same as kcat.
QUICK = ("kcat",)


@pytest.mark.parametrize(
    "client", [name if name in QUICK else pytest.param(name, marks=pytest.mark.matrix) for name in CLIENTS]
)
@pytest.mark.parametrize("trouble", TROUBLES, ids=str)
def test_what_a_client_says_is_explained(site: Site, trouble: Trouble, client: str, tmp_path: Path) -> None:
    if client == "kcat" and not shutil.which("kcat"):
        pytest.skip("kcat is not installed")
    judge(trouble, client, CLIENTS[client](trouble.attempt(site), tmp_path))


def test_the_broker_s_log_of_a_client_with_tls(site: Site, tmp_path: Path) -> None:
    """The broker writes a size of 369 million; its whole log since its start is what is explained."""
    CLIENTS["confluent-kafka"](tls(site, "CLIENT", site.ca), tmp_path)
    wait_until(lambda: "Invalid receive" in site.broker_log.read_text(), "the broker has logged the size")
    with site.broker_log.open("rb") as log:
        explanation = explain(log)

    (cause,) = [one for one in explanation.causes if one.faults == (Fault.TLS_TO_PLAINTEXT,)]
    assert {one.program for one in cause.matches} == {Program.BROKER}
    assert any(one.decoded and "TLS handshake" in one.decoded.meaning for one in cause.matches)


def test_a_client_that_works_has_nothing_to_explain(site: Site, tmp_path: Path) -> None:
    for name in ("confluent-kafka", "java-producer", "kafka-python"):
        said = CLIENTS[name](Attempt(str(site.cluster.direct_bootstrap), topic=site.topic), tmp_path)
        assert explain(io.BytesIO(said.encode())).causes == (), said
