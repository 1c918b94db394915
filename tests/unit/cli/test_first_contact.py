"""What somebody sees who types `kproxy` alone, or an address behind it."""

from __future__ import annotations

import pytest

from kproxy.cli import invoke


def shown(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[list[str], str]:
    """The commands that are printed, which are indented, and all of it."""
    assert invoke(words) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return [line.strip() for line in out.splitlines() if line.startswith("  ")], out


@pytest.mark.parametrize(
    ("words", "target"),
    [
        ([], "kafka.example:9092"),
        (["10.0.0.1:9092"], "10.0.0.1:9092"),
        (["localhost"], "localhost"),
        (["kafka-0.prod.example"], "kafka-0.prod.example"),
        (["a:1,b.c,[::1]:3"], "'a:1,b.c,[::1]:3'"),
        (["SASL_SSL://kafka:9093"], "SASL_SSL://kafka:9093"),
        (["kafka:9092", "--tls", "--tls-ca", "my ca.pem"], "kafka:9092 --tls --tls-ca 'my ca.pem'"),
    ],
)
def test_the_commands_that_matter(words: list[str], target: str, capsys: pytest.CaptureFixture[str]) -> None:
    commands, text = shown(words, capsys)
    assert commands == [f"kproxy doctor {target}", f"kproxy run {target}", f"kproxy ls {target}"]
    assert max(map(len, text.splitlines())) <= 80
    assert "'kproxy --help' lists all commands." in text
    for name in ("kproxy demo", "Without an address, the first two propose"):
        assert (name in text) is (words == [])


def test_each_command_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    commands, _ = shown(["kafka:9092"], capsys)
    for command in commands:
        assert invoke([command.split()[1], "--help"]) == 0


@pytest.mark.parametrize("word", ["rnu", "kafka", "a b:1", "$(id):1", "kafka:9092,", "kafka:x", "kafka:9092;id"])
def test_another_word_is_a_mistake(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke([word]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("kproxy: no such command ")
    assert err.endswith("(see 'kproxy --help')\n")
