"""kproxy's messages while it runs and when it stops."""

from __future__ import annotations

from kproxy.advice.remedies.own.section import OwnMessage, Section
from kproxy.base.faults import Fault

SECTION = Section(
    title="Afterwards",
    head=(
        "message",
        "meaning",
    ),
    rows=(
        OwnMessage(
            "`moved from … to …; its local port stays …`",
            "The broker advertises another address. kproxy uses it for new connections; clients notice nothing.",
        ),
        OwnMessage(
            "`is no longer in the metadata`",
            "The broker is down. Its local port stays open for `--retire-after`.",
            fault=Fault.BROKER_MISSING,
        ),
        OwnMessage(
            "`times more since)`",
            "kproxy writes the same line at most once in 30 s, and counts the repetitions. For what clients and brokers can "
            "cause, that means one line for each kind, address and reason.",
        ),
        OwnMessage(
            "`lines of the log were dropped: what reads stderr had stopped`",
            "A full pipe or disk, or Ctrl-S on a terminal: kproxy continues without waiting, and drops lines that do not "
            "fit into a million characters.",
        ),
        OwnMessage(
            "`lines about more than … others were left out`",
            "More than a thousand clients and brokers have caused warnings within 30 s. Of the others kproxy says the number "
            "only.",
        ),
        OwnMessage(
            "`…: stopping; … in flight`",
            "kproxy stops, and the line has the cause: a signal, [`--exit-with`](configuration.md#when-it-ends) "
            "or `POST /quit`.",
        ),
        OwnMessage(
            "`stopping at once`",
            "A second SIGTERM or Ctrl-C came while kproxy waited for the requests in flight: they get no answer. See "
            "[When it ends](configuration.md#when-it-ends).",
        ),
        OwnMessage(
            "`…: kproxy keeps the former configuration: …`",
            "A [reload](configuration.md#reload) found a mistake, so nothing has changed. The end of the line has the "
            "mistake. There is one line for each. `only a restart can change that` means that the option is not live.",
        ),
        OwnMessage(
            "`closed … still busy after … s (--drain-timeout)`",
            "The time of `--drain-timeout` was over. Consumers that wait for records are busy for up to "
            "`fetch.max.wait.ms`.",
        ),
        OwnMessage(
            "`defect in the data plane, please report it: a session was closed`",
            "The other sessions continue. Please include the following lines in the report.",
        ),
    ),
)
