"""The sections of kproxy's own messages in docs/troubleshooting.md: a title for the messages of each module (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import ModuleType

from kproxy.base.messages import (
    clientlogins,
    files,
    forwards,
    hops,
    logins,
    migrations,
    reachability,
    runtime,
    schemas,
    sessions,
    start,
    switches,
    users,
)
from kproxy.base.messages.message import Message


@dataclass(frozen=True, slots=True)
class Section:
    """The messages of a module, and the text before their table."""

    title: str
    module: ModuleType
    before: str = ""
    level: int = 2
    has_reasons: bool = False
    """True if the table has a column with the value of a metric's label `reason`."""

    @property
    def messages(self) -> list[Message]:
        """The messages, in the order of their declarations."""
        return [value for value in vars(self.module).values() if isinstance(value, Message)]


@cache
def all_messages() -> tuple[Message, ...]:
    """Return each message of kproxy that has a remedy."""
    return tuple(message for section in SECTIONS for message in section.messages)


SECTIONS = (
    Section("kproxy at start", start, has_reasons=True),
    Section(
        "Reaching brokers",
        reachability,
        "These messages follow `cannot be reached:` or `no bootstrap server answers:`. The column `reason` has\n"
        "the value of the label `reason` of the metric `kproxy_upstream_dial_failures_total`.",
        has_reasons=True,
    ),
    Section(
        "Through `--via`",
        hops,
        "If a message begins with `--via …:`, kproxy cannot reach the hop itself, or the hop has the problem: one of the\n"
        "messages above may follow, with the reason `proxy` or `ssh`. If it begins with a broker's address, the problem is\n"
        "between the hop and the broker.",
        level=3,
        has_reasons=True,
    ),
    Section(
        "Forwards",
        forwards,
        "kproxy logs these lines, or they follow `cannot be reached:`. [forwards.md](forwards.md) describes the commands.",
        level=3,
        has_reasons=True,
    ),
    Section(
        "Certificates and keys",
        files,
        "At start, a mistake in a file stops kproxy. Later, kproxy logs the mistake, followed by\n"
        "`new connections use the previous files`. If the changed files are valid, it logs\n"
        "`certificate files have changed; new connections use them`.",
    ),
    Section(
        "Logging in",
        logins,
        "These messages appear with `--sasl`. All of them have the reason `sasl`, and `SASL:` after the address.",
    ),
    Section("Users who log in at kproxy", users),
    Section(
        "Clients that log in at kproxy",
        clientlogins,
        "These messages appear with `--client-sasl`: [logins.md](logins.md).",
        has_reasons=True,
    ),
    Section(
        "Sessions that kproxy ends",
        sessions,
        "These lines begin with `closed a connection to …` or `refused a connection from …`. The column `reason` has the value of\n"
        "the label `reason` of the metric `kproxy_refused_total`.",
        has_reasons=True,
    ),
    Section("Afterwards", runtime),
    Section(
        "Two upstreams and the switch",
        switches,
        "kproxy logs these lines, or returns them to `POST /switch`; `kproxy migrate switch` then shows them as refusals of a\n"
        "kproxy. [migration-switch.md](migration-switch.md) describes the switch.",
    ),
    Section(
        "Findings of kproxy migrate switch",
        migrations,
        "Before kproxy holds writes: resolve each `error` first; each `warning` names clients that will notice more than a pause.\n"
        "While kproxy holds writes: the driver undoes everything, and the line has the reason.",
    ),
    Section(
        "Findings of kproxy migrate schemas",
        schemas,
        "[migration.md](migration.md#schemas) describes the copy of a schema registry.",
    ),
)
