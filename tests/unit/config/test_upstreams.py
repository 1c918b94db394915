from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.base.errors import ConfigError
from kproxy.config import load
from kproxy.config.changes import compare
from kproxy.config.options import upstream_settings

TWO = """
name: orders
listen: 127.0.0.1:29092
active: green
upstreams:
  blue: {bootstrap-servers: 'a:1, b:2', map: 'x=y:3'}
  green:
    bootstrap-servers: c
    tls: true
"""
KEYS = ", ".join(upstream_settings())
NAMES = "allowed: one or two, each with a name (a-z, 0-9, -) and bootstrap-servers"
NO_NAME = f"is no name of an upstream; {NAMES}"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("k.yaml")


def test_each_upstream_is_a_cluster_with_shared_other_options(file: Path) -> None:
    file.write_text(TWO)
    config = load({}, {}, file)
    blue, green = config.clusters
    assert [(one.name, one.upstream, one.active, str(one.listen)) for one in config.clusters] == [
        ("orders", "blue", False, "127.0.0.1:29092"),
        ("orders", "green", True, "127.0.0.1:29092"),
    ]
    assert ([str(one) for one in blue.bootstrap_servers], blue.tls, len(blue.map)) == (["a:1", "b:2"], False, 1)
    assert ([str(one) for one in green.bootstrap_servers], green.tls, len(green.map)) == (["c:9092"], True, 0)
    assert config.served == (green,)
    assert config.others("orders") == (blue,)


def test_one_upstream_is_active_without_a_word(file: Path) -> None:
    file.write_text("upstreams: {old: {bootstrap-servers: a}}\n")
    (only,) = load({}, {}, file).served
    assert (only.upstream, only.title) == ("old", "default/old")


def test_beside_other_clusters(file: Path) -> None:
    file.write_text(
        "clusters:\n- {name: a, bootstrap-servers: x, listen: '127.0.0.1:20000'}\n"
        "- {name: b, active: n, upstreams: {n: {bootstrap-servers: y}, o: {bootstrap-servers: z}}}\n"
        "- {name: c, bootstrap-servers: z, listen: '127.0.0.1:21000'}\n"
    )
    assert [one.title for one in load({}, {}, file).served] == ["a", "b/n", "c"]


def test_what_upstreams_share_may_come_from_flags_and_variables(file: Path) -> None:
    file.write_text(TWO)
    config = load({"listen": "127.0.0.1:1000"}, {"KPROXY_MAX_CONNECTIONS": "7"}, file)
    assert {(str(one.listen), one.max_connections) for one in config.clusters} == {("127.0.0.1:1000", 7)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("upstreams: {}\n", [f"k.yaml:1: upstreams: is not a mapping of upstreams; {NAMES}"]),
        ("upstreams: [a]\n", [f"k.yaml:1: upstreams: is not a mapping of upstreams; {NAMES}"]),
        ("upstreams:\n  Blue: {bootstrap-servers: a}\n", [f"k.yaml:2: upstreams: 'Blue' {NO_NAME}"]),
        ("upstreams:\n  ? [x]\n  : {bootstrap-servers: a}\n", [f"k.yaml:2: upstreams: '' {NO_NAME}"]),
        (
            "upstreams:\n  a: b\n",
            ["k.yaml:2: upstreams.a: is not an upstream; allowed: KEY: VALUE lines, see 'kproxy config schema'"],
        ),
        (
            "active: a\nupstreams:\n  a: {bootstrap-servers: x}\n  a: {bootstrap-servers: y}\n",
            ["k.yaml:4: upstreams.a: is given twice; allowed: once"],
        ),
        (
            "active: a\nupstreams: {a: {bootstrap-servers: x}, b: {bootstrap-servers: x}, c: {bootstrap-servers: x}}\n",
            [f"k.yaml:2: upstreams: has 3 upstreams; {NAMES}"],
        ),
        (
            "upstreams: {a: {bootstrap-servers: x}, b: {bootstrap-servers: y}}\n",
            ["k.yaml:1: active: is missing; allowed: a or b"],
        ),
        (
            "active: c\nupstreams: {a: {bootstrap-servers: x}, b: {bootstrap-servers: y}}\n",
            ["k.yaml:1: active: 'c' is no upstream; allowed: a or b"],
        ),
        (
            "active: [a]\nupstreams: {a: {bootstrap-servers: x}}\n",
            ["k.yaml:1: active: '' is no upstream; allowed: a"],
        ),
        (
            "bootstrap-servers: a\nactive: x\n",
            [
                "k.yaml:2: active: says which of several upstreams is active, and there are none; "
                "allowed: with upstreams"
            ],
        ),
        (
            "tls: true\nupstreams: {a: {bootstrap-servers: x}}\n",
            ["k.yaml:1: tls: stands beside upstreams (line 2); allowed: move it into each upstream"],
        ),
        (
            "upstreams:\n  a:\n    tls: maybe\n    listen: 1\n",
            [
                "k.yaml:3: upstreams.a.bootstrap-servers: is missing; allowed: HOST:PORT, or HOST for port 9092",
                "k.yaml:3: upstreams.a.tls: 'maybe' is neither true nor false; allowed: true, false",
                "k.yaml:4: upstreams.a.listen: no such key; allowed: those of 'kproxy config schema'",
            ],
        ),
        (
            "listen: nowhere\nactive: a\nupstreams: {a: {bootstrap-servers: x}, b: {bootstrap-servers: y}}\n",
            ["k.yaml:1: listen: 'nowhere' has no port: write HOST:PORT"],
        ),
        (
            "clusters:\n- {name: a, upstreams: {n: {bootstrap-servers: y}, o: {bootstrap-servers: z}}}\n"
            "- {name: a, bootstrap-servers: b, listen: '127.0.0.1:1'}\n",
            [
                "k.yaml:2: clusters[0].active: is missing; allowed: n or o",
                "k.yaml:3: clusters[1].name: 'a' is the name of two clusters; allowed: a name of its own",
            ],
        ),
    ],
)  # fmt: skip
def test_mistakes(text: str, expected: list[str], file: Path) -> None:
    file.write_text(text)
    with pytest.raises(ConfigError) as raised:
        load({}, {}, file)
    assert list(raised.value.problems) == expected


def test_a_flag_does_not_say_which_upstream_it_means(file: Path) -> None:
    file.write_text(TWO)
    with pytest.raises(ConfigError) as raised:
        load({"map": ("a=b:1",)}, {}, file)
    text = "--map: does not say which upstream it means; allowed: put map under its upstream in k.yaml"
    assert list(raised.value.problems) == [text]


@pytest.mark.parametrize(
    ("other", "refused"),
    [
        (TWO, []),
        (TWO.replace("a:1", "d:1"), []),
        (
            TWO.replace("active: green", "active: blue"),
            [
                "cluster orders: active has changed (green → blue): "
                "a reload would lose records; kproxy migrate switch does it safely"
            ],
        ),
        (
            TWO.replace("  blue: {bootstrap-servers: 'a:1, b:2', map: 'x=y:3'}\n", ""),
            [],
        ),
        (
            "name: orders\nlisten: 127.0.0.1:29092\nbootstrap-servers: c\ntls: true",
            [],
        ),
        (
            "name: orders\nlisten: 127.0.0.1:29092\nbootstrap-servers: 'a:1'",
            [
                "cluster orders: clients are routed to c:9092, and orders has none of these bootstrap servers: "
                "begin with the same ones; a reload after this one may change them"
            ],
        ),
        (
            TWO.replace("listen: 127.0.0.1:29092", "listen: 127.0.0.1:39092"),
            [
                f"cluster orders/{name}: listen has changed (127.0.0.1:29092 → 127.0.0.1:39092): "
                "only a restart can change that"
                for name in ("green", "blue")
            ],
        ),
    ],
)  # fmt: skip
def test_a_reload(other: str, refused: list[str], file: Path) -> None:
    file.write_text(TWO)
    old = load({}, {}, file)
    file.write_text(other)
    assert [one for one in compare(old, load({}, {}, file)).refused if "would have ports" not in one] == refused
