"""Messages while kproxy runs and when it stops."""

from __future__ import annotations

from kproxy.base.faults import Fault
from kproxy.base.messages.message import Message

NODE_FOUND = Message(
    "{node}: {address} is at local port {port}",
    "A broker is new in the metadata. Clients reach it at this port of kproxy.",
)
NODE_MOVED = Message(
    "{node} moved from {former} to {address}; its local port stays {port}",
    "The broker advertises another address. kproxy uses it for new connections; clients notice nothing.",
)
NODE_REMOVED = Message(
    "{node} ({address}) is no longer in the metadata",
    "The broker is down. Its local port stays open for `--retire-after`.",
    fault=Fault.BROKER_MISSING,
)
NODE_RETURNED = Message(
    "{node} ({address}) is back",
    "A broker that was down is in the metadata again. You need not do anything.",
)
LINES_REPEATED = Message(
    "{line} ({count} times more since)",
    "kproxy writes the same line at most once in 30 s, and counts the repetitions. For what clients and brokers can "
    "cause, that means one line for each kind, address and reason.",
)
LINES_DROPPED = Message(
    "{lines} lines of the log were dropped: what reads stderr had stopped",
    "A full pipe or disk, or Ctrl-S on a terminal: kproxy continues without waiting, and drops lines that do not fit "
    "into a million characters.",
)
LINES_LEFT_OUT = Message(
    "{lines} lines about more than {subjects} others were left out",
    "More than a thousand clients and brokers have caused warnings within 30 s. Of the others kproxy says the number "
    "only.",
)
STOPPING = Message(
    "{reason}: stopping; {in_flight} in flight",
    "kproxy stops, and the line has the cause: a signal, [`--exit-with`](configuration.md#when-it-ends) or `POST "
    "/quit`.",
)
STOPPING_AT_ONCE = Message(
    "stopping at once",
    "A second SIGTERM or Ctrl-C came while kproxy waited for the requests in flight: they get no answer. See [When "
    "it ends](configuration.md#when-it-ends).",
)
CONFIGURATION_KEPT = Message(
    "{cause}: kproxy keeps the former configuration: {problem}",
    "A [reload](configuration.md#reload) found a mistake, so nothing has changed. The end of the line has the "
    "mistake. There is one line for each. `only a restart can change that` means that the option is not live.",
)
CLOSED_BUSY = Message(
    "closed {sessions} still busy after {seconds:g} s (--drain-timeout)",
    "The time of `--drain-timeout` was over. Consumers that wait for records are busy for up to `fetch.max.wait.ms`.",
)
DATA_PLANE_DEFECT = Message(
    "defect in the data plane, please report it: a session was closed",
    "The other sessions continue. Please include the following lines in the report.",
)
