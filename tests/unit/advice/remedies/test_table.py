"""The table of remedies: each fault has one, and it can be read."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from kproxy.advice import remedies
from kproxy.advice.remedies import traffic
from kproxy.advice.remedies.remedy import Program, ProgramMessage, Remedy, parse_remedies
from kproxy.base.faults import Fault

# Faults that no client's message shows: the cluster's owner or kproxy's user sees them otherwise.
NOT_SAID_BY_CLIENTS = {
    Fault.HOP_FAILED,  # librdkafka has no proxies
    Fault.FORWARD_ENDED,  # the program that forwards says so
    Fault.SAME_ADDRESS_TWICE,  # they say that the leader has moved
    Fault.KPROXY_NEEDED,  # whatever the network makes of it
    Fault.PROXY_LOOP,
    Fault.MIXED_BOOTSTRAP,
    Fault.MIXED_CLUSTERS,  # nor do they notice
    Fault.NO_CONTROLLER,
    Fault.LISTENER_CONFIGURATION,
    Fault.CONNECTOR_MISSING,  # Spark's own
    Fault.KPROXY,
    Fault.SHORT_NAME_ADVERTISED,  # the address shows it
    Fault.HOST_GATEWAY,
    Fault.ADDRESS_FORM,
    Fault.NETWORK_REFUSED,
    Fault.CONTROLLER_PORT,
    Fault.PROXY_TOO_OLD,
    Fault.TLS_INSPECTION,
    Fault.JAAS,  # Java's own
    Fault.OPTION_REMOVED,
    Fault.BROKER_STORAGE,
    Fault.KRAFT_CONFIGURATION,
    Fault.NOT_ABOUT_REACHING_KAFKA,
    *(remedy.fault for remedy in traffic.TABLE),
}


def test_each_fault_has_one_remedy() -> None:
    assert sorted(remedy.fault.value for remedy in remedies.all_remedies()) == sorted(fault.value for fault in Fault)
    assert all(re.fullmatch(r"[a-z0-9-]+", fault.value) for fault in Fault)


@pytest.mark.parametrize("remedy", remedies.all_remedies(), ids=lambda remedy: remedy.fault.value)
def test_a_remedy_can_be_read(remedy: Remedy) -> None:
    assert remedies.remedy_of(remedy.fault) is remedy
    assert re.match(r"[A-Zk].*[^.]$", remedy.title)
    for text in (remedy.cause, remedy.check, remedy.fix):
        assert re.match(r"[A-Zk`].*\.$", text), text
        assert text.count("`") % 2 == 0, text
    messages = {(message.program, message.text) for message in remedy.messages}
    assert len(messages) == len(remedy.messages)
    for message in remedy.messages:
        text = message.text
        # Words of any program count beside a sign of Kafka only.
        assert len(max(text.split("…"), key=len).strip()) >= (3 if message.program is Program.ANY else 6), text
        assert not message.note or re.match(r"[A-Z`].*\.$", message.note), message.note
        assert message.note.count("`") % 2 == 0, message.note
        assert "`" not in text.replace("`bootstrap.servers`", ""), text
    if remedy.fault not in NOT_SAID_BY_CLIENTS:
        assert {program for program, _ in messages} >= {Program.JAVA, Program.LIBRDKAFKA, Program.KAFKA_PYTHON}


def test_a_remedy_is_parsed() -> None:
    text = "\n== silent: No answer\nThe server\nhangs.\nCheck: Look:\nthere.\nFix: Wait.\nfranz-go> a > b\njava?> c\n"

    assert parse_remedies(text) == (
        Remedy(
            Fault.SILENT,
            "No answer",
            "The server hangs.",
            "Look: there.",
            "Wait.",
            (ProgramMessage(Program.FRANZ_GO, "a > b"), ProgramMessage(Program.JAVA, "c", shared=True)),
        ),
    )


def test_the_lookup_alone_does_not_import_the_tables() -> None:
    code = (
        "import sys, kproxy.advice.remedies; print([m for m in sys.modules if m.startswith('kproxy.advice.remedies.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "['kproxy.advice.remedies.remedy']"
