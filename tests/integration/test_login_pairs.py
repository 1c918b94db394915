"""Logins at kproxy and at the brokers with TLS on both sides: a part of what tests/matrix/test_login_matrix.py has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.matrix.client import Client
from tests.matrix.logins import CERTIFICATE, CLIENTS, Site, site

pytestmark = pytest.mark.integration

# Each login at kproxy and each at the brokers at least once.
PAIRS = [
    ("OAUTHBEARER", CERTIFICATE),
    (CERTIFICATE, "SCRAM-SHA-512"),
    ("SCRAM-SHA-512", "OAUTHBEARER"),
    ("SCRAM-SHA-256", "PLAIN"),
    ("PLAIN", "nothing"),
]


@pytest.fixture(scope="module")
def logins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("logins")) as made:
        yield made


@pytest.mark.parametrize("client", CLIENTS[1:4], ids=str)
def test_clients_log_in_at_kproxy_and_kproxy_at_the_brokers(logins: Site, client: Client) -> None:
    """Java, librdkafka and kafka-python."""
    assert logins.run(client.command(), str(client).replace(" ", "-"), PAIRS, 500) == []
