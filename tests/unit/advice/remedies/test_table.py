"""The table of remedies: each fault has one, and it can be read."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from kproxy.advice import remedies
from kproxy.advice.remedies import traffic
from kproxy.advice.remedies.remedy import Program
from kproxy.base.faults import Fault

# Faults that no client's message shows: the cluster's owner or kproxy's user sees them otherwise.
NOT_SAID_BY_CLIENTS = {
    Fault.HOP_FAILED,  # librdkafka has no proxies
    Fault.KPROXY_NEEDED,  # whatever the network makes of it
    Fault.PROXY_LOOP,
    Fault.MIXED_BOOTSTRAP,
    Fault.MIXED_CLUSTERS,  # nor do they notice
    Fault.NO_CONTROLLER,
    Fault.LISTENER_CONFIGURATION,
    Fault.CONNECTOR_MISSING,  # Spark's own
    Fault.KPROXY,
    *(remedy.fault for remedy in traffic.TABLE),
}


@pytest.mark.parametrize("fault", Fault)
def test_each_fault_has_one_remedy(fault: Fault) -> None:
    assert [one.fault for one in remedies.all_remedies()].count(fault) == 1
    assert remedies.remedy_of(fault).fault is fault


@pytest.mark.parametrize("fault", Fault)
def test_a_remedy_is_written_in_sentences(fault: Fault) -> None:
    remedy = remedies.remedy_of(fault)

    assert re.match(r"[A-Zk].*[^.]$", remedy.title)
    for text in (remedy.cause, remedy.check, remedy.fix):
        assert re.match(r"[A-Zk`].*\.$", text), text
        assert text.count("`") % 2 == 0, text
        assert "  " not in text


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault not in NOT_SAID_BY_CLIENTS])
def test_the_most_used_clients_words_are_known(fault: Fault) -> None:
    programs = {message.program for message in remedies.remedy_of(fault).messages}

    assert programs >= {Program.JAVA, Program.LIBRDKAFKA, Program.KAFKA_PYTHON}


@pytest.mark.parametrize("fault", Fault)
def test_a_message_is_there_once_and_has_words(fault: Fault) -> None:
    messages = remedies.remedy_of(fault).messages

    assert len({(one.program, one.text) for one in messages}) == len(messages)
    for one in messages:
        longest = max(one.text.split("…"), key=len)
        assert len(longest.strip()) >= 6, one.text
        assert "`" not in one.text.replace("`bootstrap.servers`", ""), one.text


def test_the_names_of_faults_are_words_for_json() -> None:
    assert all(re.fullmatch(r"[a-z0-9-]+", fault.value) for fault in Fault)


def test_the_names_alone_cost_no_import_of_the_table() -> None:
    code = (
        "import sys, kproxy.advice.remedies; print([m for m in sys.modules if m.startswith('kproxy.advice.remedies.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "['kproxy.advice.remedies.remedy']"
