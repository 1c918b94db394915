"""A real three-broker cluster whose advertised names resolve nowhere, and kproxy in front of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kproxy.dev.devcluster import DevCluster, ListenerSpec
from tests.harness.clients.spark import PASSWORD, PLAIN
from tests.harness.clusters.steady import STEADY
from tests.harness.process import Kproxy
from tests.harness.tls import Authority
from tests.integration.conftest import FORBIDDEN

_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """Shared by all tests that do not harm it: brokers 1, 2 and 1001.

    Besides CLIENT, LOGIN takes the user `spark` by PLAIN, and by SCRAM the users that a test makes. SECURE takes TLS.
    """
    password = "changeit"
    store = Authority(tmp_path_factory.mktemp("cluster")).pkcs12(password, "localhost")
    properties = {
        **STEADY,
        # A broker gives 55 MB at once unless told otherwise; 100 MB in one response must pass too.
        "fetch.max.bytes": "209715200",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.login.plain.sasl.jaas.config": f'{PLAIN} user_spark="{PASSWORD}";',
        "listener.name.login.scram-sha-256.sasl.jaas.config": _SCRAM,
        "listener.name.login.scram-sha-512.sasl.jaas.config": _SCRAM,
        "listener.name.secure.ssl.keystore.location": str(store),
        "listener.name.secure.ssl.keystore.type": "PKCS12",
        "listener.name.secure.ssl.keystore.password": password,
        "listener.name.secure.ssl.key.password": password,
    }
    listeners = [
        ListenerSpec("LOGIN", "kafka-{id}.cluster.internal:9093", "SASL_PLAINTEXT"),
        ListenerSpec("SECURE", protocol="SSL"),
    ]
    with DevCluster(brokers=[1, 2, 1001], extra_listeners=listeners, properties=properties) as made:
        yield made


@pytest.fixture
def login_kproxy(cluster: DevCluster, own_kproxy: Callable[..., Kproxy]) -> Kproxy:
    """A kproxy before the listeners whose clients have to log in."""
    at = cluster.listener("LOGIN")
    maps = [word for node, address in at.items() for word in ("--map", f"node:{node}={address}")]
    return own_kproxy(",".join(map(str, at.values())), *maps)


@pytest.fixture(scope="package")
def kproxy(cluster: DevCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kproxy]:
    """Shared by all tests that do not stop it. That it leaked nothing is checked at its end."""
    with Kproxy(tmp_path_factory.mktemp("kproxy"), cluster.bootstrap, forbidden=[FORBIDDEN]) as made:
        yield made
