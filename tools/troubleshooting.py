"""Writes docs/troubleshooting.md from the tables in `kproxy.advice.remedies` and the messages in `kproxy.base.messages`.

python -m tools.troubleshooting [FILE]
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from kproxy.advice.remedies import all_remedies, remedies_by_family, remedy_of, traffic
from kproxy.advice.remedies.own import SECTIONS, Section
from kproxy.advice.remedies.remedy import Program, ProgramMessage, Remedy
from kproxy.base.faults import BY_ADDRESS, Fault

DOCUMENT = Path(__file__).parents[1] / "docs" / "troubleshooting.md"
_WIDTH = 119

_HEAD = """\
<!-- Made by `make troubleshooting` from kproxy/advice/remedies and kproxy/base/messages: change those. -->

# Troubleshooting

Search this page for the message that you see. The sections list messages of clients and brokers without kproxy,
messages of clients with kproxy, and messages of kproxy itself. In a message, `…` stands for text that varies.

`kproxy explain "MESSAGE"` and `kproxy explain LOG` do the search for you.

Look at these three places first:

- the lines that kproxy logs at start
- `curl 127.0.0.1:19091/status`
- `kcat -b 127.0.0.1:19092 -L`, which must show local addresses only
"""

_WITHOUT = """\
## Without kproxy: messages of clients and brokers

Most people come here for one reason. The client has reached *one* broker. This broker has sent the advertised addresses
of all brokers, and the client cannot resolve or reach them. Run kproxy, and give the client `127.0.0.1:19092` as its
bootstrap server.

The causes are below, each with the messages of the programs. Some messages fit several causes:
[Messages with several causes](#messages-with-several-causes).
"""

_SEVERAL = """\
### Messages with several causes

These messages alone do not show which cause it is. Search for another message before it, or check the causes above each
table in their order.
"""

_CLIENTS = """\
## With kproxy: messages of clients

| message | meaning, and what to do |
|---|---|
| `Failed to resolve …` or `UnknownHostException` with the name of a *broker* | The client does not connect through kproxy. Check its bootstrap servers. Some frameworks set them in more than one place. |
| the same with the name in `--advertise` | The client cannot resolve the name that kproxy advertises. Choose a name or address that the client can reach. |
| `Connection refused` to `127.0.0.1:19094` or a similar port, in a container | Inside a container, 127.0.0.1 is the container itself. Set `--listen` and `--advertise`: [deploy/](../deploy/README.md). |
| `Connection refused` or a timeout to `HOST:19094` or a similar port, while `HOST:19092` works | The node ports are not published, or a firewall blocks them. Open all ports of `--node-ports`. |
| `Disconnected while requesting ApiVersion: might be caused by incorrect security.protocol configuration` | kproxy closed the connection. Either it could not reach that broker, or the client or the broker uses TLS. kproxy's log has a line for it. |
| `Bootstrap broker … disconnected`, `Connection to node 1 (…) could not be established` | The same, in Java. |
| SASL `Authentication failed` with GSSAPI or AWS MSK IAM | Both bind the login to the broker's host name, but the client knows kproxy's host name. Let kproxy log in: set [`--sasl`](configuration.md#logging-in), and `security.protocol=PLAINTEXT` in the client. |
| `Unexpected handshake request with client mechanism …`, `Request is not valid given the current SASL state` | kproxy already logs in (`--sasl`), and the client logs in again. Remove the credentials from the client: `security.protocol=PLAINTEXT`. |
"""

_SEVERAL_ANCHOR = "#messages-with-several-causes"

_PROGRAMS = {
    Program.LIBRDKAFKA: "librdkafka (confluent-kafka, kcat, Go, .NET, Node.js)",
    Program.JAVA: "Java (Flink, Connect, Kafka's own tools)",
    Program.BROKER: "broker",
}


def page() -> str:
    """Return the whole page."""
    parts = [
        _HEAD,
        _WITHOUT,
        "\n".join(_index()) + "\n",
        *(part for family, remedies in remedies_by_family().items() for part in _family(family, remedies)),
        _SEVERAL,
        *_several(),
        _CLIENTS,
        *(_section(section) for section in SECTIONS),
    ]
    return "\n".join(parts)


def anchor(heading: str) -> str:
    """Return the anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def causes() -> dict[tuple[Program, str], list[Remedy]]:
    """Return the remedies of each message of a program.

    A fault that only the address shows does not count beside others.
    """
    by_message: dict[tuple[Program, str], list[Remedy]] = {}
    for remedy in sorted(all_remedies(), key=lambda remedy: remedy.fault in BY_ADDRESS):
        for message in remedy.messages:
            group = by_message.setdefault((message.program, message.text), [])
            if not group or remedy.fault not in BY_ADDRESS:
                group.append(remedy)
    return by_message


def _index() -> Iterator[str]:
    yield from ("| about | cause |", "|---|---|")
    for family, remedies in remedies_by_family().items():
        links = (f"[{remedy.title}](#{anchor(remedy.title)})" for remedy in remedies if _is_told(remedy))
        yield f"| {family} | {'<br>'.join(links)} |"


def _several() -> Iterator[str]:
    """Yield a table for each set of causes that have messages in common, those with the most messages first."""
    groups: dict[tuple[Fault, ...], list[ProgramMessage]] = {}
    for key, remedies in causes().items():
        if len(remedies) > 1:
            same = (message for message in remedies[0].messages if (message.program, message.text) == key)
            groups.setdefault(tuple(remedy.fault for remedy in remedies), []).extend(same)
    for faults, messages in sorted(groups.items(), key=lambda group: -len(group[1])):
        items = [f"{number}. [{title}](#{anchor(title)})" for number, title in enumerate(map(_title, faults), 1)]
        yield "\n".join((*items, "", *_table(messages))) + "\n"


def _title(fault: Fault) -> str:
    return remedy_of(fault).title


def _family(family: str, remedies: Iterable[Remedy]) -> Iterator[str]:
    yield f"### {family}\n"
    of_message = causes()
    for remedy in remedies:
        if not _is_told(remedy):
            continue
        own = [message for message in remedy.messages if of_message[message.program, message.text] == [remedy]]
        text = [
            f"#### {remedy.title}",
            _wrapped(remedy.cause),
            _wrapped(f"*Check:* {remedy.check}"),
            _wrapped(f"*Do:* {remedy.fix}"),
            *([_wrapped(f"*Clients:* {remedy.behaviour}")] if remedy.behaviour else []),
        ]
        if own:
            text.append("\n".join(_table(own)))
        if not remedy.messages:
            text.append("No program has a message for it; kproxy's page and log show it.")
        if len(own) < len(remedy.messages):
            more = "More messages" if own else "The messages"
            text.append(_wrapped(f"{more} fit other causes too: [Messages with several causes]({_SEVERAL_ANCHOR})."))
        yield "\n\n".join(text) + "\n"


def _is_told(remedy: Remedy) -> bool:
    """Check whether a remedy has its own paragraph; kproxy's own messages have theirs in other tables."""
    return bool(remedy.messages) or remedy in traffic.TABLE


def _table(messages: Iterable[ProgramMessage]) -> Iterator[str]:
    by_note: dict[tuple[str, Program], list[str]] = {}
    for message in messages:
        by_note.setdefault((message.note, message.program), []).append(_code(message.text))
    if not any(note for note, _ in by_note):
        yield from ("| program | message |", "|---|---|")
        for (_, program), texts in by_note.items():
            yield f"| {_PROGRAMS.get(program, program.value)} | {'<br>'.join(texts)} |"
        return
    yield from ("| program | message | what it means |", "|---|---|---|")
    for (note, program), texts in by_note.items():
        yield f"| {_PROGRAMS.get(program, program.value)} | {'<br>'.join(texts)} | {note.replace('|', chr(92) + '|')} |"


def _section(section: Section) -> str:
    head = ["message", *(["reason"] if section.has_reasons else []), "meaning, and what to do"]
    table = [_cells(head), "|" + "---|" * len(head)]
    for meaning, messages in groupby(section.messages, key=lambda message: message.meaning):
        group = list(messages)
        texts = ", ".join(f"`{message.pattern}`" for message in group)
        reasons = ", ".join(dict.fromkeys(f"`{message.reason}`" for message in group if message.reason))
        table.append(_cells([texts, reasons, meaning] if section.has_reasons else [texts, meaning]))
    heading = f"{'#' * section.level} {section.title}"
    return "\n\n".join(part for part in (heading, section.before, "\n".join(table)) if part) + "\n"


def _cells(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells).replace("|  |", "| |") + " |"


def _code(text: str) -> str:
    """Format a text as code in a table's cell."""
    escaped = text.replace("|", r"\|")
    return f"`` {escaped} ``" if "`" in escaped else f"`{escaped}`"


def _wrapped(text: str) -> str:
    """Wrap a text to the width of the other documents, without breaks between backticks."""
    joined = re.sub(r"`[^`]+`", lambda code: code[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(joined, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\0", " ")


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else DOCUMENT).write_text(page(), encoding="utf-8")
