"""Each client with each login at kproxy, and each login of kproxy at the brokers, with TLS on both sides."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from tests.harness.programs.javac import NotInstalled
from tests.matrix.client import Client
from tests.matrix.logins import AT_BROKERS, AT_KPROXY, CLIENTS, KPROXYS, PASSWORD, Site, site

pytestmark = pytest.mark.matrix


@pytest.fixture(scope="module")
def logins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("logins")) as made:
        yield made


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_each_login_at_kproxy_with_each_at_the_brokers(logins: Site, client: Client) -> None:
    try:
        command = client.command()
    except NotInstalled as reason:
        pytest.skip(str(reason))
    assert logins.run(command, str(client).replace(" ", "-"), list(product(AT_KPROXY, AT_BROKERS)), 1100) == []
    shown = logins.kproxy.log + logins.kproxy.get("/status")[1] + logins.kproxy.get("/sessions")[1]
    assert not [secret for secret in (PASSWORD, KPROXYS) if secret in shown]
