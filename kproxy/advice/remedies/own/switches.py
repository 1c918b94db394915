"""kproxy's messages about upstreams, and about the switch between them: its log, and refusals of POST /switch."""

from __future__ import annotations

from kproxy.advice.remedies.own.section import OwnMessage, Section
from kproxy.base.faults import Fault

SECTION = Section(
    title="Two upstreams and the switch",
    head=(
        "message",
        "meaning, and what to do",
    ),
    before=(
        "kproxy logs these lines, or returns them to `POST /switch`; `kproxy migrate switch` then shows them as refusals of a\n"
        "kproxy. [migration-switch.md](migration-switch.md) describes the switch."
    ),
    rows=(
        OwnMessage(
            "`… is not active; clients are routed to …`, `… nodes can be reached; clients are routed to …`",
            "kproxy also checks the upstream that is not active. You need not do anything.",
        ),
        OwnMessage(
            "`upstreams … and … are the same Kafka cluster (id …)`",
            "The bootstrap servers of both lead to one cluster, so no switch can be made. Correct the address of one, "
            "and look for a map or a name that leads to the other cluster.",
            fault=Fault.WRONG_CLUSTER,
        ),
        OwnMessage(
            "`upstream … does not answer: …`",
            "The line continues with the reason, see [Reaching brokers](#reaching-brokers). Clients cannot be switched to this "
            "upstream until it answers.",
        ),
        OwnMessage(
            "`upstream … has not sent its cluster id: kproxy cannot distinguish the two`, `… Its brokers send it only "
            "after a login, and clients use their own: set cluster-id for upstream …, or let kproxy log in (sasl)`",
            "Its brokers answer only after a login, which kproxy does not make. If clients log in themselves, set "
            "`cluster-id` for that upstream (`kafka-cluster cluster-id` shows it); else give it credentials (`sasl`).",
        ),
        OwnMessage(
            "`routes clients to upstream …, as switched, and not to …, as configured (active)`",
            "After a restart, kproxy routes clients to the upstream of the last switch, which `--state-dir` records. Change "
            "`active` in the configuration.",
        ),
        OwnMessage(
            "`… was routed to or from upstream …, which the configuration does not have; it has …`",
            "The configuration no longer has the upstream that clients used. Put it back. If you know that clients "
            "belong to another upstream, remove the file of this cluster in `--state-dir`.",
        ),
        OwnMessage(
            "`… was routed to upstream … when it was switched last, and clients are routed to … now: remove …`",
            "A reload would have added upstreams to the cluster, and `--state-dir` has the state of an earlier switch. kproxy "
            "does not guess. Clients keep their upstream; remove the file, and reload again.",
        ),
        OwnMessage(
            "`… clients are routed to …, and … has none of these bootstrap servers: begin with the same ones; …`",
            "A reload would have added or removed the upstreams of the cluster, and the active one seems to be another "
            "Kafka cluster. Let `active` name the upstream that clients use, with one of its bootstrap servers.",
        ),
        OwnMessage(
            "`active has changed (…)`, `a reload would lose records; kproxy migrate switch does it safely`",
            "Records that were written and not copied would be lost. If clients have been switched already, "
            "`active` still names the upstream from before the switch.",
        ),
        OwnMessage(
            "`… is in switch …: reload when that is over`, `the configuration is being reloaded: ask again`",
            "A reload and a switch do not happen at the same time. Repeat the one that was refused.",
        ),
        OwnMessage(
            "`… continues switch …: …`",
            "kproxy was killed during a switch, and resumes it. The driver does the rest.",
        ),
        OwnMessage(
            "`… writes wait, for … s at most`, `… held: no write is without an answer after … s`, `… flipped: "
            "connections are cut, clients reach …; writes still wait`, `… committed: writes wait until the switch is "
            "released or aborted`",
            "The steps of a switch, in this order.",
        ),
        OwnMessage(
            "`…: clients write to …; their writes waited … s`",
            "The switch has ended here. *released*: it is done. *undone*: its driver aborted it, or `its "
            "deadline passed while it was …`, and clients use the same upstream as before. The driver's output has the "
            "reason; if the driver has ended, `kproxy migrate switch --abort` cleans up.",
        ),
        OwnMessage(
            "`… has committed and holds writes for … s now: kproxy migrate switch --resume continues it, --abort undoes it`",
            "The driver was lost at the one point at which kproxy cannot decide alone. Run one of the two commands now: "
            "clients give up their writes after 30 s to 2 minutes.",
        ),
        OwnMessage(
            "`the state cannot be written to --state-dir: …`, `… kproxy tries again each second`, `… the deadline has "
            "passed: the switch is undone, although …`, `… the state is written to --state-dir again`",
            "The disk of `--state-dir` is full or broken. kproxy does nothing that it cannot record, with one "
            "exception: at the deadline of a hold it goes back in any case. Free some disk space.",
        ),
        OwnMessage(
            "`… the deadline has passed, but …; writes stay held`",
            "The disk of `--state-dir` is broken, and its file may already record that this kproxy has committed. Free some "
            "space or repair the disk: kproxy tries again each second.",
        ),
        OwnMessage(
            "`a defect has stopped this switch here: restart kproxy: it continues from its --state-dir`",
            "Restart this kproxy; it continues in the state of the file. Please report the lines that follow.",
        ),
        OwnMessage(
            "`… has its position in … from before the switch: it gets nothing until it has asked for its position, or is "
            "started again with the right one and another client.id`",
            "The consumer fetches at an offset of the other cluster, where other records stand. One of a group asks soon "
            "by itself. One that keeps offsets itself (`assign`, `seek`, a checkpoint) must be started again with an "
            "offset of the new cluster: `kproxy migrate offsets` translates. It needs another `client.id` then, since "
            "kproxy knows a client by its name; a number behind the name (`reader-2`) does not make it another. A Spark "
            "query that is started again gets one by itself.",
        ),
        OwnMessage(
            "`kproxy has no --state-dir: a restart would route clients back in the middle of the switch`",
            "Add `state-dir` to the configuration, on a disk that survives a restart; a reload is enough.",
        ),
        OwnMessage(
            "`kproxy was started or killed, or got its upstreams, a short time ago, and clients may repeat writes for … s "
            "yet`, `clients of the kproxy before this one may repeat writes, for … s at most`",
            "A client that has lost the answer to a write sends the write again, and it must reach the same cluster. kproxy "
            "does not know which answers clients received before. Wait for the time in the message.",
        ),
        OwnMessage(
            "`… lost the answer to a write and may repeat it, for … s at most`, `… no answer yet`",
            "The hold waits until the client has repeated its write, or has given up. If the broker is slow or its "
            "leader moves, try again when it is well.",
        ),
        OwnMessage(
            "`switch … is under way (…); finish it or undo it first`, `another driver (…) has taken over switch …`",
            "Another driver switches this cluster. kproxy obeys one driver only: `kproxy migrate switch --resume` or "
            "`--abort` takes over a switch whose driver has ended.",
        ),
        OwnMessage(
            "`this hold is out of date (after …, now …): read the state again`, `there is no switch … under way "
            "here`, `switch … has ended here (…): …`",
            "The command came too late: the deadline has passed, or another driver has changed this kproxy's state. Start a "
            "new switch.",
        ),
        OwnMessage(
            "`switch … has been released: clients write to …`",
            "The switch can no longer be undone. `kproxy migrate rollback` moves clients back, if the switch was "
            "`--reversible`.",
        ),
        OwnMessage(
            "`it has committed: another kproxy may have been released; --resume or --abort of its driver decides`",
            "If only one kproxy went back, two clusters could take writes. Let the driver decide.",
        ),
        OwnMessage(
            "`is too large to be examined after a switch`, `that must be examined after a switch`",
            "For a while after a switch, kproxy reads some requests and responses whole. This one has more bytes than "
            "kproxy keeps. The client connects again.",
        ),
    ),
)
