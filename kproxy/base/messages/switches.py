"""Messages about upstreams, and about the switch between them: the log, and refusals of POST /switch."""

from __future__ import annotations

from kproxy.base.faults import Fault
from kproxy.base.messages.message import Message, alike

UPSTREAM_NOT_ACTIVE, UPSTREAM_NODES_REACHED = alike(
    "kproxy also checks the upstream that is not active. You need not do anything.",
    "cluster {cluster}: {upstream} is not active; clients are routed to {active}",
    "cluster {title}: {reached} of {nodes} nodes can be reached; clients are routed to {active}",
)
SAME_CLUSTER = Message(
    "upstreams {other} and {name} are the same Kafka cluster (id {cluster_id})",
    "The bootstrap servers of both lead to one cluster, so no switch can be made. Correct the address of one, and "
    "look for a map or a name that leads to the other cluster.",
    fault=Fault.WRONG_CLUSTER,
)
UPSTREAM_SILENT = Message(
    "upstream {to} does not answer: {problem}",
    "The line continues with the reason, see [Reaching brokers](#reaching-brokers). Clients cannot be switched to "
    "this upstream until it answers.",
)
CLUSTER_ID_MISSING, CLUSTER_ID_AFTER_LOGIN = alike(
    "Its brokers answer only after a login, which kproxy does not make. If clients log in themselves, set "
    "`cluster-id` for that upstream (`kafka-cluster cluster-id` shows it); else give it credentials (`sasl`).",
    "upstream {name} has not sent its cluster id: kproxy cannot distinguish the two",
    "upstream {name} has not sent its cluster id: kproxy cannot distinguish the two. Its brokers send it only after a login, and clients use their own: set cluster-id for upstream {name}, or let kproxy log in (sasl)",
)
ROUTED_AS_SWITCHED = Message(
    "cluster {cluster}: routes clients to upstream {active}, as switched, and not to {configured}, as configured (active)",
    "After a restart, kproxy routes clients to the upstream of the last switch, which `--state-dir` records. Change "
    "`active` in the configuration.",
)
UPSTREAM_NOT_CONFIGURED = Message(
    "--state-dir: cluster {cluster} was routed to or from upstream {name}, which the configuration does not have; it has {upstreams}",
    "The configuration no longer has the upstream that clients used. Put it back. If you know that clients belong to "
    "another upstream, remove the file of this cluster in `--state-dir`.",
)
STATE_OF_EARLIER_SWITCH = Message(
    "--state-dir: cluster {name} was routed to upstream {active} when it was switched last, and clients are routed to {upstream} now: remove {file}",
    "A reload would have added upstreams to the cluster, and `--state-dir` has the state of an earlier switch. "
    "kproxy does not guess. Clients keep their upstream; remove the file, and reload again.",
)
BOOTSTRAP_SERVERS_REPLACED = Message(
    "cluster {name}: clients are routed to {servers}, and {title} has none of these bootstrap servers: begin with the same ones; a reload after this one may change them",
    "A reload would have added or removed the upstreams of the cluster, and the active one seems to be another Kafka "
    "cluster. Let `active` name the upstream that clients use, with one of its bootstrap servers.",
)
ACTIVE_CHANGED, RELOAD_LOSES_RECORDS = alike(
    "Records that were written and not copied would be lost. If clients have been switched already, `active` still "
    "names the upstream from before the switch.",
    "cluster {name}: active has changed ({names}): {text}",
    "a reload would lose records; kproxy migrate switch does it safely",
)
RELOAD_DURING_SWITCH, SWITCH_DURING_RELOAD = alike(
    "A reload and a switch do not happen at the same time. Repeat the one that was refused.",
    "cluster {name} is in switch {switch}: reload when that is over",
    "the configuration is being reloaded: ask again",
)
SWITCH_CONTINUES = Message(
    "cluster {cluster}: continues switch {switch}: {phase}",
    "kproxy was killed during a switch, and resumes it. The driver does the rest.",
)
WRITES_WAIT, WRITES_HELD, CLIENTS_FLIPPED, WRITES_COMMITTED = alike(
    "The steps of a switch, in this order.",
    "{switch} from {former} to {to}: writes wait, for {seconds:.0f} s at most",
    "{switch}: held: no write is without an answer after {seconds:.1f} s",
    "{switch}: flipped: connections are cut, clients reach {active}; writes still wait",
    "{switch}: committed: writes wait until the switch is released or aborted",
)
CLIENTS_WRITE_AGAIN = Message(
    "{switch}: {outcome} ({why}): clients write to {active}; their writes waited {seconds:.1f} s",
    "The switch has ended here. *released*: it is done. *undone*: its driver aborted it, or `its deadline passed "
    "while it was …`, and clients use the same upstream as before. The driver's output has the reason; if the driver "
    "has ended, `kproxy migrate switch --abort` cleans up.",
)
COMMITTED_WITHOUT_DRIVER = Message(
    "cluster {cluster}: switch {switch} has committed and holds writes for {seconds:.0f} s now: kproxy migrate switch --resume continues it, --abort undoes it",
    "The driver was lost at the one point at which kproxy cannot decide alone. Run one of the two commands now: "
    "clients give up their writes after 30 s to 2 minutes.",
)
STATE_NOT_WRITTEN, STATE_RETRIED, UNDONE_AT_DEADLINE, STATE_WRITTEN = alike(
    "The disk of `--state-dir` is full or broken. kproxy does nothing that it cannot record, with one exception: at "
    "the deadline of a hold it goes back in any case. Free some disk space.",
    "the state cannot be written to --state-dir: {error}",
    "cluster {unit}: {problem}; kproxy tries again each second",
    "cluster {cluster}: the deadline has passed: the switch is undone, although {problem}",
    "cluster {unit}: the state is written to --state-dir again",
)
HELD_AFTER_DEADLINE = Message(
    "cluster {cluster}: the deadline has passed, but {problem}; writes stay held",
    "The disk of `--state-dir` is broken, and its file may already record that this kproxy has committed. Free some "
    "space or repair the disk: kproxy tries again each second.",
)
SWITCH_DEFECT = Message(
    "a defect has stopped this switch here: restart kproxy: it continues from its --state-dir",
    "Restart this kproxy; it continues in the state of the file. Please report the lines that follow.",
)
CONSUMER_AT_OLD_POSITION = Message(
    "cluster {name}: the consumer '{client_id}' at {address} has its position in {topic}-{partition} from before the switch: it gets nothing until it has asked for its position, or is started again with the right one and another client.id",
    "The consumer fetches at an offset of the other cluster, where other records stand. One of a group asks soon by "
    "itself. One that keeps offsets itself (`assign`, `seek`, a checkpoint) must be started again with an offset of "
    "the new cluster: `kproxy migrate offsets` translates. It needs another `client.id` then, since kproxy knows a "
    "client by its name; a number behind the name (`reader-2`) does not make it another. A Spark query that is "
    "started again gets one by itself.",
)
NO_STATE_DIR = Message(
    "kproxy has no --state-dir: a restart would route clients back in the middle of the switch",
    "Add `state-dir` to the configuration, on a disk that survives a restart; a reload is enough.",
)
RETRIES_POSSIBLE, RETRIES_OF_PREDECESSOR = alike(
    "A client that has lost the answer to a write sends the write again, and it must reach the same cluster. kproxy "
    "does not know which answers clients received before. Wait for the time in the message.",
    "kproxy was started or killed, or got its upstreams, a short time ago, and clients may repeat writes for {seconds:.0f} s yet",
    "clients of the kproxy before this one may repeat writes, for {seconds:.0f} s at most",
)
RETRY_POSSIBLE, NO_ANSWER_YET = alike(
    "The hold waits until the client has repeated its write, or has given up. If the broker is slow or its leader "
    "moves, try again when it is well.",
    "{client} at {address} lost the answer to a write and may repeat it, for {seconds:.0f} s at most",
    "{writes} no answer yet",
)
SWITCH_UNDER_WAY, DRIVER_REPLACED = alike(
    "Another driver switches this cluster. kproxy obeys one driver only: `kproxy migrate switch --resume` or "
    "`--abort` takes over a switch whose driver has ended.",
    "switch {switch} is under way ({phase}); finish it or undo it first",
    "another driver ({driver}) has taken over switch {switch}",
)
HOLD_OUT_OF_DATE, NO_SWITCH_UNDER_WAY, SWITCH_HAS_ENDED = alike(
    "The command came too late: the deadline has passed, or another driver has changed this kproxy's state. Start a "
    "new switch.",
    "this hold is out of date (after {after}, now {count}): read the state again",
    "there is no switch {switch} under way here",
    "switch {switch} has ended here ({outcome}): {why}",
)
SWITCH_RELEASED = Message(
    "switch {switch} has been released: clients write to {to}",
    "The switch can no longer be undone. `kproxy migrate rollback` moves clients back, if the switch was "
    "`--reversible`.",
)
SWITCH_COMMITTED = Message(
    "it has committed: another kproxy may have been released; --resume or --abort of its driver decides",
    "If only one kproxy went back, two clusters could take writes. Let the driver decide.",
)
REQUEST_TOO_LARGE_TO_EXAMINE = Message(
    "a {api} request of {size} bytes is too large to be examined after a switch",
    "For a while after a switch, kproxy reads some requests whole. This one has more bytes than kproxy keeps. The "
    "client connects again.",
    reason="malformed",
)
