"""What the main process says to a worker and to the forker, and they to it. It stays between processes of one kproxy,
so pickle is safe.

To a worker go packets, a few bytes each; `Take` comes with the client's socket (SCM_RIGHTS). End of file means that the
main process is gone. To the main process go frames of any size; only `Asked` is answered, on the same socket, while the
worker waits. With the forker go packets both ways; `Fork` comes with the worker's two sockets.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from struct import Struct

from kproxy.base.address import Address
from kproxy.config import Config
from kproxy.protocol.rewrite.endpoints import Endpoints
from kproxy.proxy.cluster.known import Fact, Known
from kproxy.proxy.cluster.topology import Node, NodeKey
from kproxy.proxy.status.shown import SessionStatus
from kproxy.proxy.watch.frames import Copied
from kproxy.proxy.watch.lines import Passed

SIZE = Struct("!I")

# To a worker. A cluster is called by its name.


@dataclass(frozen=True, slots=True)
class Take:
    """Carry this client, under this number."""

    number: int
    cluster: str
    key: NodeKey | None
    host: str
    peer: Address


@dataclass(frozen=True, slots=True)
class Changed:
    """There is something new about the cluster: look."""

    cluster: str


@dataclass(frozen=True, slots=True)
class Count:
    """Say your numbers."""


@dataclass(frozen=True, slots=True)
class Show:
    """Say which sessions you have. Answered by Sessions."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Close each session as soon as nothing is in flight in it."""


@dataclass(frozen=True, slots=True)
class Holds:
    """All holds that there are now, by number, each with the cluster whose clients' requests it holds, or None for all.
    Begin those that are new, and undo those that are no more. It says all, because a worker that was silent may have
    missed some."""

    clusters: dict[int, str | None]


@dataclass(frozen=True, slots=True)
class Watch:
    """Whether somebody looks on: then say what passes (`Seen`)."""

    on: bool


@dataclass(frozen=True, slots=True)
class Capture:
    """Whether somebody wants copies of frames: then send them (`Captured`)."""

    on: bool


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """There may be a new configuration: ask for it. Answered by Reconfigured."""


@dataclass(frozen=True, slots=True)
class Ping:
    """Are you there? To the forker too. Answered by Pong."""


# To the main process


@dataclass(frozen=True, slots=True)
class Pong:
    """I am. The forker says it unasked as well, when it is ready."""


@dataclass(frozen=True, slots=True)
class Started:
    """The worker is there, in this process, and takes clients."""

    pid: int


@dataclass(frozen=True, slots=True)
class Asked:
    """A question. The answer is a pair of this number and one of the answers below."""

    number: int
    question: object


@dataclass(frozen=True, slots=True)
class Configuration:
    """What is this kproxy to do? A worker's first question, answered by Configured."""


@dataclass(frozen=True, slots=True)
class Look:
    """What is known of the cluster? Answered by a View."""

    cluster: str


@dataclass(frozen=True, slots=True)
class Localise:
    """What are the local addresses of these? Answered by Localised, or NotLocalised."""

    cluster: str
    host: str
    endpoints: Endpoints


@dataclass(frozen=True, slots=True)
class Claim:
    """A broker of the cluster, at this address, says that it is of the cluster with this id. Answered by the id of the
    one that is served."""

    cluster: str
    cluster_id: str
    said_by: Address


@dataclass(frozen=True, slots=True)
class Wanted:
    """The client with this number wants this node: it has said so in its TLS handshake (--sni)."""

    number: int
    key: NodeKey


@dataclass(frozen=True, slots=True)
class Ended:
    """The client with this number is gone."""

    number: int


@dataclass(frozen=True, slots=True)
class Settled:
    """Since the hold with this number, nothing is in flight any more in the sessions of its cluster."""

    hold: int


@dataclass(frozen=True, slots=True)
class Reconfigured:
    """The worker does what this edition of the configuration says; for that, it drains so many sessions."""

    edition: int
    draining: int


@dataclass(frozen=True, slots=True)
class Noted:
    """The worker has found something out about reaching the cluster."""

    cluster: str
    fact: Fact


@dataclass(frozen=True, slots=True)
class Seen:
    """What has passed, and how much more there was."""

    passed: tuple[Passed, ...]
    lost: int


@dataclass(frozen=True, slots=True)
class Sessions:
    """The worker's sessions, see `Here.shown`."""

    shown: tuple[SessionStatus, ...]


@dataclass(frozen=True, slots=True)
class Captured:
    """Copies of frames that have passed, and how many more there were."""

    copied: tuple[Copied, ...]
    lost: int


@dataclass(frozen=True, slots=True)
class Logged:
    """A line for the log."""

    logger: str
    level: int
    text: str
    about: tuple[str, ...]


# Answers


@dataclass(frozen=True, slots=True)
class Configured:
    """The configuration that holds now, and the how manieth that is since kproxy has begun."""

    edition: int
    config: Config


@dataclass(frozen=True, slots=True)
class View:
    """What a worker knows of a cluster: its nodes, each with the port that clients are told; how they are reached;
    where kproxy listens, for whichever cluster."""

    nodes: dict[NodeKey, Node]
    known: Known
    bound: frozenset[Address]


@dataclass(frozen=True, slots=True)
class Localised:
    """The addresses, and the view from now on."""

    addresses: tuple[Address, ...]
    view: View


@dataclass(frozen=True, slots=True)
class NotLocalised:
    """A WireError."""

    reason: str
    text: str


# To the forker, and from it


@dataclass(frozen=True, slots=True)
class Fork:
    """Fork a worker. Answered, with this number, by Forked or NotForked."""

    number: int


@dataclass(frozen=True, slots=True)
class Forked:
    """The worker is this process."""

    number: int
    pid: int


@dataclass(frozen=True, slots=True)
class NotForked:
    """The system gives no process."""

    number: int
    why: str


@dataclass(frozen=True, slots=True)
class Signalled:
    """A worker was ended by a signal, unasked."""

    pid: int
    signal: int


def framed(message: object) -> bytes:
    """A message behind its size."""
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return SIZE.pack(len(body)) + body
