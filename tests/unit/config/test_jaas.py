"""sasl.jaas.config, as Kafka reads it; tests/oracle compares with Kafka itself."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.config.clientfile import parse_entry

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ('{} required username="alice" password="secret";', {"username": "alice", "password": "secret"}),
        ("{}\n required\n username='a\"b'\n;", {"username": 'a"b'}),
        ('{} REQUIRED p="a\\"b\\\\c\\td\\101\\0";', {"p": 'a"b\\c\tdA\0'}),
        (
            '{} required // a comment\n /* and "another */ useKeyTab=true "quoted"=x;',
            {"useKeyTab": "true", "quoted": "x"},
        ),
        ('{} required p="a;b=c//d/*";', {"p": "a;b=c//d/*"}),
        ("{} optional;", {}),
    ],
)
def test_an_entry(text: str, options: dict[str, str]) -> None:
    assert parse_entry(text.replace("{}", MODULE)) == (MODULE, options)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Module",
        "Module required",
        'Module required a="hunter2"',
        'Module required a="hunter2;',
        'Module required a="hunter2\n";',
        'Module perhaps a="hunter2";',
        "Module required a=;",
        "Module required hunter2;",
        "Module required = = =;",
        'Module required a="hunter2"; Other required;',
        "Module required a=hunter2!;",
    ],
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"JAAS|option") as caught:
        parse_entry(text)
    assert "hunter2" not in str(caught.value)


@given(st.text(alphabet="\\\"'=; aZ0/*\n.required", max_size=60))
def test_garbage_is_refused_or_read(text: str) -> None:
    with contextlib.suppress(ValueError):
        parse_entry(text)
