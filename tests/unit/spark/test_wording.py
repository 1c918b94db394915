"""Messages with flags, for those who have a file."""

from __future__ import annotations

import pytest
import yaml

from kproxy.proxy.status.readiness import advice
from kproxy.spark.wording import replace_flags
from tests.unit.proxy.status.clusters import cluster


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("--map 'node:1=HOST:PORT' --map 'node:2=HOST:PORT'. Or", "`map: [node:1=HOST:PORT, node:2=HOST:PORT]`. Or"),
        ("--map kafka:9092=there:1 matches no node", "`map: [kafka:9092=there:1]` matches no node"),
        ("use --via http://HOST:PORT", "use `via: [http://HOST:PORT]`"),
        ("--listen 127.0.0.1:9: the port is taken", "`listen: 127.0.0.1:9`: the port is taken"),
        ("another with --listen HOST:PORT", "another with `listen: HOST:PORT`"),
        ("set the right name with --tls-server-name", "set the right name with `tls-server-name`"),
        (
            "(leave out --tls), or it requires it (--tls-cert)",
            "(leave out `tls: true`), or it requires it (`tls-cert`)",
        ),
        ("allowed: with --no-tls", "allowed: with `tls: false`"),
        ("outside --node-ports 10-20, where", "outside `node-ports: 10-20`, where"),
        ("--tls-server-name *: kproxy accepts", "`tls-server-name: *`: kproxy accepts"),
        ("log in: --sasl PLAIN, and", "log in: `sasl: PLAIN`, and"),
        ("kproxy migrate switch --resume goes on", "kproxy migrate switch --resume goes on"),
        ("a -- b --", "a -- b --"),
    ],
)
def test_flags_become_keys(said: str, shown: str) -> None:
    assert replace_flags(said) == shown


def test_what_it_says_can_be_copied() -> None:
    """Into a file, as it stands."""
    _, first, _, second, _ = replace_flags(advice(cluster("lost", "good", "lost"))).split("`")
    assert yaml.safe_load(first) == {"map": ["node:1=HOST:PORT", "node:3=HOST:PORT"]}
    assert second == "bootstrap-servers"
