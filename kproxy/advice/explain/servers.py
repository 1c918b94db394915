"""Bootstrap servers that a text names beside the messages of its client (pure).

A log has them in the settings that a client prints at its start, and in the lines about its first connections:
`servers_in_line` knows these. People also paste their file, their code or their command with an error:
`servers_in_settings` knows the forms of these, for the beginning of a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kproxy.advice.explain.facts import addresses, split_address
from kproxy.advice.explain.subject import OTHER_PORTS
from kproxy.advice.remedies.ports import OTHER_SERVERS

# The bootstrap servers of a text that are kept.
MOST_SERVERS = 20

_ADDRESS = r"(?:[A-Za-z_+]{2,20}://)?(?:\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9_][\w.-]{0,252}):\d{1,5}(?![\w@])"
# Erlang's and Elixir's pairs of a host and a port.
_ITEM = rf"(?:{_ADDRESS}|\{{:?\"[A-Za-z0-9][\w.-]{{0,252}}\", ?\d{{1,5}}\}})"
_ITEMS = rf"({_ITEM}(?:[\"'`]?[^\S\n]{{0,3}}[,\n]\s{{0,60}}(?:-\s{{1,20}})?[\"'`]?{_ITEM}){{0,20}})"
# What stands between the name of a setting, or of a function, and its value.
_SEPARATOR = r"[\"'\]]?(?:\s{0,20}(?:=>|->|:=|[=:,(]|\bto\b)\s{0,60}|\s{1,60}value:\s{0,3})"
_OPENING = r"(?:new\s|-\s|[\[({]\s{0,60}|[\"'`&]|\[\]string|String|List\.of|Arrays\.asList|vec!){0,6}"
_NAME = (
    r"(?:Kafka [Bb]rokers?(?=: )|[Bb]ootstrap[._-]?[Ss]ervers?|BOOTSTRAP[._]?SERVERS?(?:_CONFIG)?|[Bb]rokers|BROKERS|[Bb]roker[._-]?(?:[Ll]ist|[Uu]rls?)"
    r"|BROKER_(?:LIST|URLS?)|KAFKA_(?:BROKER|SERVERS?|URLS?|HOSTS?|ADDR(?:ESS(?:ES)?)?|BROKERCONNECT)|BROKERS_URL"
    r"|[Kk]afka[._-]?(?:[Ss]ervers?|[Hh]osts?|[Bb]roker|[Uu]rls?|[Aa]ddr(?:ess(?:es)?)?|[Bb]rokerConnect))"
)
_SETTINGS = (
    re.compile(rf"{_NAME}{_SEPARATOR}{_OPENING}{_ITEMS}"),
    re.compile(rf"(?<![\w-])--?(?:kafka[.-])?(?:brokers?(?:-list)?|server|brokerConnect)[= ]\s{{0,3}}[\"']?{_ITEMS}"),
    re.compile(rf"\b(?:kaf|kafkactl) [^\n]{{0,80}}?-b {_ITEMS}"),
    re.compile(rf"\bseed brokers:\)?\s{{0,20}}(?:- )?{_ITEMS}"),
    # Fluentd and Fluent Bit.
    re.compile(rf"(?m)^[^\S\n]{{0,40}}[Bb]rokers[^\S\n]{{1,20}}{_ITEMS}"),
    # The first argument of what makes a client, in Ruby, Rust, Go, SQL and Python; the last is of rsyslog.
    re.compile(
        r"(?:\bKafka\.new\(\s?\[|\bClientBuilder::new\(\s?vec!\[|\bkafka\.(?:TCP|Dial)\((?:\"tcp\", ?)?|"
        r"\bDialLeader\([^\"\n]{1,60}\"tcp\", ?|\[\]string\{|\b(?:ENGINE|engine) ?= ?Kafka\(\s{0,10}|\bbroker ?= ?(?=[\"']kafka://)|"
        rf"\bbroker ?= ?\[)[\"'`]?{_ITEMS}"
    ),
)  # fmt: skip
# Names that other systems use too.
_SHARED_NAMES = re.compile(rf"\b(?:hosts|addresses|endpoints){_SEPARATOR}{_OPENING}{_ITEMS}")

_IN_LOG = re.compile(
    r"(?:"
    r"[Bb]ootstrap[._-]?[Ss]ervers?[\"']?\s{0,3}[=:,]?\s{0,3}"
    r"|ootstrap brokers: ?|with broker endpoints: ?|Connected to broker at (?=.{0,300}\(unregistered\))"
    r"|--(?:bootstrap-server|broker-list)[= ]|metadata\.broker\.list[\"']?\s{0,3}[=:,]{1,2}>?\s{0,3}"
    r"|\b(?:kcat|kafkacat|rdkafka_(?:example|performance)) (?:.{0,80}[ \"'])?-[A-Za-z]{0,3}b ?"
    r")"
    r"[\[\"']{0,2}([^\s\]\"';,=]{3,200}(?:[\"']?, ?[\"']?[^\s\]\"';,=]{3,200}){0,20})"
)
# Names that leave no doubt, whatever the port.
_SURE = re.compile("ootstrap|OOTSTRAP|seed")
# kcat needs no port.
_HOST_ALONE = re.compile(r"[A-Za-z0-9][\w.-]{0,252}", re.ASCII)
# librdkafka names a thread after the bootstrap server, and cuts long names.
_WHOLE_THREAD = re.compile(r"\[thrd:(?:\w{1,20}://)?([^\s/\]]{3,120}:\d{1,5})/[bostrap]{0,9}\]")
# `kubectl port-forward` of something with Kafka's name, or to a port that brokers often have.
_FORWARD = re.compile(
    r"\bport-forward\b(?=[^\n]{0,200}?(?:[Kk]afka|redpanda|broker)|[^\n]{0,200}?[: ][129]?90[0-9]{2}\b)"
    r"[^\n]{0,200}? (\d{1,5})(?::(\d{1,5}))?(?!\S)"
)
_CONTACTED = re.compile(
    r"(?:etching cluster metadata from kafka(?:\+ssl)?://|etching metadata for .{1,250}? from broker |\(from broker -\d{1,10}: )"
    r"([^\s\"',]{3,255})"
)


def servers_in_line(line: str) -> list[str]:
    """Return the bootstrap servers in the setting, the command or the thread's name that a line has."""
    servers: list[str] = []
    for match in _IN_LOG.finditer(line):
        servers += _without_other_servers(match[1], _SURE.search(match[0]))
        if not servers and ("kcat" in match[0] or "kafkacat" in match[0]) and _HOST_ALONE.fullmatch(match[1]):
            servers.append(f"{match[1]}:9092")
    if "[thrd:" in line and (thread := _WHOLE_THREAD.search(line)):
        servers += addresses(thread[1])
    if "forward" in line and (forward := _FORWARD.search(line)) and int(forward[2] or forward[1]) not in OTHER_SERVERS:
        servers.append(f"localhost:{forward[1]}")
    return servers[:MOST_SERVERS]


def servers_in_settings(text: str) -> Iterator[tuple[int, str]]:
    """Yield the bootstrap servers in files, code and commands, each with the number of its line, the first being 1."""
    for pattern in _SETTINGS:
        for match in pattern.finditer(text):
            yield from _numbered(text, match, _without_other_servers(match[1], _SURE.search(match[0])))
    if "kafka" in text.lower():
        for match in _SHARED_NAMES.finditer(text):
            servers = (server for server in addresses(match[1]) if str(split_address(server)[1]) not in OTHER_PORTS)
            yield from _numbered(text, match, servers)


def contacted_server(line: str) -> str:
    """Return the address that a client asks for metadata, as Sarama, ruby-kafka and kcat show it; empty if there is none."""
    match = _CONTACTED.search(line)
    return next(iter(addresses(match[1])), "") if match else ""


def _without_other_servers(value: str, sure: re.Match[str] | None) -> list[str]:
    """Return the addresses in a value, without those at ports of other servers if its name leaves a doubt."""
    servers = addresses(value.replace("://", ": "))
    return [server for server in servers if sure or split_address(server)[1] not in OTHER_SERVERS]


def _numbered(text: str, match: re.Match[str], servers: Iterable[str]) -> Iterator[tuple[int, str]]:
    for server in servers:
        at = text.find(server, match.start(1))
        yield text.count("\n", 0, at if at >= 0 else match.start(1)) + 1, server
