"""Messages about the commands of `--forward-command`, and about addresses that no longer lead to their node."""

from __future__ import annotations

from functools import partial

from kproxy.base.faults import Fault
from kproxy.base.messages.message import Message, alike

_forward = partial(Message, fault=Fault.FORWARD_ENDED, reason="forward-command")

FORWARD_ENDED, FORWARD_NOT_RUN = alike(
    "A command of [`--forward-command`](forwards.md) ended by itself. The line has its exit code and its last words. kproxy "
    "starts it again, first after half a second, then after pauses of up to a minute. Run the command by hand to see all "
    "that it prints; it must not ask for anything, because kproxy runs it without a terminal.",
    "the forward command '{command}' ended {how}{words}; kproxy starts it again in {pause:g} s",
    "the forward command '{command}' cannot be run: {problem}; kproxy tries again in {pause:g} s",
    fault=Fault.FORWARD_ENDED,
    reason="forward-command",
)
FORWARD_SILENT = _forward(
    "the forward command '{command}' does not listen on port {port} after {seconds:g} s; kproxy lets it run",
    "A command of [`--forward-command`](forwards.md) runs, and nothing accepts connections at the port that kproxy chose. "
    "Its words in the log may say why: it may be slow, or wait for an answer. Check that the command has `{port}` where its "
    "local port belongs. If it listens later, kproxy uses it.",
)
FORWARD_REFUSED_ADDRESS = _forward(
    "no forward command: {problem}",
    "A broker advertises an address that no host has. kproxy puts only names of letters, digits, `.`, `_` and `-`, and IP "
    "addresses, into a [command](forwards.md#what-brokers-can-put-into-a-command).",
)
TOO_MANY_FORWARDS = _forward(
    "{most} forward commands run already, the most that kproxy runs for a cluster",
    "Each node has a command of its own. For larger clusters use [`--via`](configuration.md#proxies-and-ssh), or one tunnel "
    "for all brokers.",
)
FORWARD_WORDS_LEFT_OUT = Message(
    "{lines} lines of the forward command of {node} were left out",
    "The command printed more than the log should have. Run it by hand to see all.",
)
ROUTE_ENDED = Message(
    "{dial} no longer leads to {node}, since {time}: {problem}",
    "A port-forward, tunnel or mapped address led to this broker, and does not any more. If another broker answers there, the "
    "end of the line names it. Start the forward again, or let kproxy keep it running: [`--forward-command`](forwards.md).",
    fault=Fault.FORWARD_ENDED,
)
ROUTE_TAKEN = Message(
    "{dial} leads to {owner} now; it led to {node}, which cannot be reached since {time}",
    "Another broker answers where a port-forward, tunnel or mapped address led to the broker of the line. Start the forward "
    "again, or let kproxy keep it running: [`--forward-command`](forwards.md).",
    fault=Fault.FORWARD_ENDED,
)
