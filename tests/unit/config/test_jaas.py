"""sasl.jaas.config, as Kafka reads it; tests/oracle compares with Kafka itself."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.config.jaas import JaasError, JaasMistake, parse_entry, parse_file

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
    entry = parse_entry(text.replace("{}", MODULE))
    assert (entry.module, entry.options, entry.mechanisms) == (MODULE, options, ("PLAIN",))


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


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("", JaasMistake.EMPTY),
        ("KafkaClient { Module required; };", JaasMistake.BLOCK),
        ("\"Module required a='b';\"", JaasMistake.QUOTED),
        ("Module required; Other required;", JaasMistake.SEVERAL),
        ('Module a="b";', JaasMistake.FLAG),
        ("Module", JaasMistake.FLAG),
        ("Module required a b=c;", JaasMistake.OPTION),
        ("Module required a=;", JaasMistake.OPTION),
        ('Module required a="b;', JaasMistake.OPEN_QUOTE),
        ("Module required a=“b”;", JaasMistake.BARE),
        ('Module required a="b"', JaasMistake.SEMICOLON),
        ("Module required", JaasMistake.SEMICOLON),
    ],
)
def test_each_mistake_is_told_apart(text: str, mistake: JaasMistake) -> None:
    with pytest.raises(JaasError) as caught:
        parse_entry(text)
    assert caught.value.mistake is mistake


SERVER = """
// A comment
KafkaServer {
  a.PlainLoginModule required user_a="1"
    user_b='2';
  b.ScramLoginModule optional;
};
Client { c.DigestLoginModule required; };
"""


def test_a_file() -> None:
    entries = parse_file(SERVER)
    assert [(entry.section, entry.module, entry.options) for entry in entries] == [
        ("KafkaServer", "a.PlainLoginModule", {"user_a": "1", "user_b": "2"}),
        ("KafkaServer", "b.ScramLoginModule", {}),
        ("Client", "c.DigestLoginModule", {}),
    ]


@pytest.mark.parametrize(
    ("old", "new", "mistake", "at"),
    [
        ("user_b='2';", "user_b='2'", JaasMistake.SEMICOLON, "\n  b.Scram"),
        ("optional;", "optional", JaasMistake.SEMICOLON, "\n};"),
        ("};\nClient", "}\nClient", JaasMistake.SECTION_END, "\nClient"),
        ("required user_a", "user_a", JaasMistake.FLAG, " user_a"),
        ("KafkaServer {", "{", JaasMistake.SECTION, "{"),
        ("'2'", "'2", JaasMistake.OPEN_QUOTE, "'2"),
        ("; };\n", ";", JaasMistake.SECTION, ""),
    ],
)
def test_a_mistake_in_a_file_has_its_place(old: str, new: str, mistake: JaasMistake, at: str) -> None:
    assert old in SERVER
    text = SERVER.replace(old, new, 1)
    with pytest.raises(JaasError) as caught:
        parse_file(text)
    assert caught.value.mistake is mistake
    assert text[caught.value.index :].startswith(at)


@given(st.text(alphabet="\\\"'=;{} aZ0/*\n.required", max_size=60))
def test_garbage_in_a_file_is_refused_or_read(text: str) -> None:
    with contextlib.suppress(JaasError):
        parse_file(text)


@given(st.text(alphabet="\\\"'=; aZ0/*\n.required", max_size=60))
def test_garbage_is_refused_or_read(text: str) -> None:
    with contextlib.suppress(ValueError):
        parse_entry(text)
