"""kproxy's own messages, and those of clients through kproxy: a table for each section of troubleshooting.md.

__init__      `sections`
section       `OwnMessage`: a message and its meaning; `Section`: a table of them
clients       messages of clients that connect through kproxy
start         kproxy's messages at start
reachability  kproxy's messages about brokers that it cannot reach
hops          kproxy's messages about the proxies and SSH servers of `--via`
files         kproxy's messages about certificates, keys and stores
logins        kproxy's messages about its own logins
sessions      kproxy's messages about sessions that it ends or refuses
runtime       kproxy's messages while it runs and when it stops
switches      kproxy's messages about upstreams and the switch from one to the other
migrations    findings of `kproxy migrate switch`
"""

from __future__ import annotations

from functools import cache

from kproxy.advice.remedies.own.section import OwnMessage, Section

__all__ = ["OwnMessage", "Section", "sections"]


@cache
def sections() -> tuple[Section, ...]:
    """Return the tables in the order of the page."""
    from kproxy.advice.remedies.own import (
        clients,
        files,
        hops,
        logins,
        migrations,
        reachability,
        runtime,
        sessions,
        start,
        switches,
    )

    modules = (clients, start, reachability, hops, files, logins, sessions, runtime, switches, migrations)
    return tuple(module.SECTION for module in modules)
