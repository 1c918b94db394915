"""Versions that Kafka 4 has forgotten and kproxy still serves, by the classes of the last Kafka 3."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from kproxy.protocol.rewrite.apiversions import TABLE_VERSIONS, newest_version
from kproxy.protocol.rewrite.endpoints import rule_for
from kproxy.protocol.wire.api import APIS
from tests.oracle.oracle_jvm import SMALL, WIDE, Oracle, Wanted
from tests.oracle.oracle_session import Tally, judge, similar, through_kproxy

pytestmark = [pytest.mark.integration, pytest.mark.matrix, pytest.mark.timeout(1200)]

LAST_KAFKA_3 = "3.9.2"
# ShareGroupHeartbeat: Kafka 3.9's schema does not say that its Assignment is nullable, so nothing can be made by it.
WRONG_SCHEMA = {(76, 0)}


@pytest.fixture(scope="module")
def older() -> Iterator[Oracle]:
    with Oracle(LAST_KAFKA_3) as running:
        running.limit((api.value, api.oldest, newest_version(api, TABLE_VERSIONS)) for api in APIS.values())
        yield running


def _known(classes: Oracle) -> set[tuple[int, int]]:
    return {(api["key"], int(version)) for api in classes.apis() for version in api["versions"]}


def test_kafka_3_or_4_knows_every_version_that_is_served(oracle: Oracle, older: Oracle) -> None:
    served = {(api.value, version) for api in APIS.values() for version in range(api.oldest, api.newest + 1)}
    assert served <= _known(oracle) | _known(older)
    # Produce 0-2, Fetch 0-3 and others of Kafka 0.8 to 2.0.
    assert {(0, 0), (0, 2), (1, 0), (1, 3), (2, 0), (8, 1)} <= served - _known(oracle)


@pytest.mark.parametrize("key", APIS, ids=lambda key: APIS[key].name)
def test_what_kafka_4_has_forgotten_passes(oracle: Oracle, older: Oracle, tally: Tally, key: int) -> None:
    """Also what Kafka 3 says in the versions with endpoints that both know."""
    rng = random.Random(random.getrandbits(64))
    kept = _known(oracle)
    for _, version in sorted(call for call in _known(older) if call[0] == key):
        if (key, version) in WRONG_SCHEMA or not APIS[key].serves(version):
            continue
        if (key, version) not in kept or rule_for(key, version):
            wanted = [
                Wanted(key, version, rng.getrandbits(63), rng.choices((SMALL, WIDE), (95, 5))[0]) for _ in range(200)
            ]
            judge(older, through_kproxy(older, wanted, rng, similar(rng)), tally)
