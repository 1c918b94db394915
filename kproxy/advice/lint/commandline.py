"""Bootstrap servers on the command lines of containers: those of Kafka's tools, rpk, kcat, cub and Kafdrop (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from kproxy.advice.lint.client import ClientConfig, parse_servers
from kproxy.advice.lint.clientsettings import SERVERS, ClientSource
from kproxy.advice.lint.model import Setup
from kproxy.advice.lint.value import ConfigValue, ValueStyle

_MOST_WORDS = 500
_OPTION = re.compile(r"--(?:bootstrap-servers?|broker-list|brokers|kafka\.broker-?[Cc]onnect)")
# Programs whose option -b has bootstrap servers.
_SHORT = re.compile(r"(?:.*/)?(?:kcat|kafkacat|kafka-ready)")
# The first line of a block of YAML, whose lines are indented.
_BLOCK = re.compile(r"[|>][-+\d]*[ \t]*(?:#[^\n]*)?\r?\n")
# A word of a shell script without its quotes and what follows it.
_BARE = re.compile(r"[\"']*((?:[\w.-]+|\[[\d.:A-Fa-f]+\]):\d{1,5}(?:,(?:[\w.-]+|\[[\d.:A-Fa-f]+\]):\d{1,5})*)[\"';)]*")


def split_words(values: Sequence[ConfigValue]) -> Iterator[ConfigValue]:
    """Yield the words of a command, which may be one text or a list."""
    for value in values[:_MOST_WORDS]:
        texts = value.text.split(maxsplit=_MOST_WORDS)[:_MOST_WORDS]
        header = _BLOCK.match(value.raw)
        lead = header.end() if header is not None else 0
        spans = list(islice(re.finditer(r"\S+", value.raw[lead:]), _MOST_WORDS))
        if texts == [value.text]:
            yield value
        elif texts == [span[0] for span in spans]:
            start, style = value.start + lead, ValueStyle.PLAIN if header is not None else value.style
            for span in spans:
                yield replace(value, text=span[0], start=start + span.start(), end=start + span.end(), style=style)
        else:
            for text in texts:
                yield replace(value, text=text, style=ValueStyle.FIXED)


def add_clients_of_command(origin: ClientSource, words: Sequence[ConfigValue], setup: Setup) -> None:
    """Add a client for each option of a command that has bootstrap servers."""
    known: set[str] = set()
    is_short = False
    option = ""
    for word in split_words(words):
        is_short = is_short or bool(_SHORT.fullmatch(word.text.strip("\"'")))
        value = _servers(option, word, is_short=is_short)
        if value is not None and value.text not in known:
            known.add(value.text)
            servers = tuple(parse_servers(value))
            settings = {SERVERS: value}
            client = ClientConfig(
                origin.name, value.location, servers, settings, container=origin.container, complete=False
            )
            setup.clients.append(client)
        option = word.text


def _servers(option: str, word: ConfigValue, *, is_short: bool) -> ConfigValue | None:
    """Return the bootstrap servers in a word, with the word before it."""
    name, sign, _ = word.text.partition("=")
    at = len(name) + 1 if sign and _OPTION.fullmatch(name) else 0
    if not at and not _OPTION.fullmatch(option) and not (option == "-b" and is_short):
        return None
    match = _BARE.fullmatch(word.text, at)
    if match is None:
        return None
    servers = replace(word, text=match[1], key_start=-1, key_end=-1)
    if word.raw != word.text:
        return replace(servers, style=ValueStyle.FIXED)
    return replace(servers, start=word.start + match.start(1), end=word.start + match.end(1))
