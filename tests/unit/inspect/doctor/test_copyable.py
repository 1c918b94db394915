"""Lines to copy: as narrow as a terminal, and still the same command."""

from __future__ import annotations

import shlex

import pytest

from kproxy.inspect.doctor.copyable import command, copyable

LONG = "kproxy run -b 127.0.0.1:21781 --map 'node:2=a b:1' --map node:3=127.0.0.1:23751 --tls --tls-ca /path/to/ca.pem"


@pytest.mark.parametrize(
    "line",
    [
        LONG,
        f"openssl s_client -connect kafka.example:9092 -showcerts </dev/null | openssl x509 -noout -dates {'-x ' * 20}",
        f'kafka-acls --bootstrap-server "a b:9092" --add {"--operation Describe " * 9}',
        "kproxy exec " + "-b kafka.example:9092 " * 4 + "-- kafka-topics --bootstrap-server '{bootstrap}' --describe",
        f"echo it's {'-x y ' * 30}",
    ],
)
def test_a_command_is_the_same_in_several_lines(line: str) -> None:
    printed = list(command(line, "   "))
    assert len(printed) > 1
    assert max(map(len, printed)) <= 80
    assert all(one.endswith(" \\") for one in printed[:-1])
    joined = "\n".join(printed).replace("\\\n", "")  # as a shell reads it
    assert joined.split() == line.split()
    if "it's" not in line:
        assert shlex.split(joined) == shlex.split(line)


def test_an_option_keeps_its_value() -> None:
    assert all(not one.removesuffix(" \\").endswith(("--map", "-b", "--tls-ca")) for one in command(LONG, " " * 20))


def test_what_is_short_stays_in_one_line() -> None:
    assert list(command("kproxy run -b a:1", "   ")) == ["   kproxy run -b a:1"]
    assert list(copyable("docker ps   # the container", "  ")) == ["  docker ps   # the container"]


def test_a_comment_comes_before_its_line() -> None:
    """Behind a setting it would be a part of the value."""
    assert list(copyable("a.b=c   # why", "  ")) == ["  # why", "  a.b=c"]
    comment, *lines = copyable(f"curl {'-v ' * 24}  # does it answer?", "  ")
    assert comment == "  # does it answer?"
    assert "#" not in "".join(lines)


@pytest.mark.parametrize("line", [f"listeners={'PLAINTEXT://:9092,' * 9}", f"  port: {'1' * 90}", "- name: external"])
def test_a_setting_is_whole(line: str) -> None:
    assert list(copyable(line, "  ")) == [f"  {line}"]


def test_what_a_broker_names_moves_no_cursor() -> None:
    for line in ("keytool \x1b[31m", "a=\x1b[31m", "# \x1b[31m", "a=b   # \x1b[31m"):
        assert all(one.isprintable() for one in copyable(line, "  "))
