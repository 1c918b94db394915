"""Findings of `kproxy migrate switch`, and its reasons to undo a switch."""

from __future__ import annotations

from kproxy.advice.remedies.own.section import OwnMessage, Section
from kproxy.base.faults import Fault

SECTION = Section(
    title="Findings of kproxy migrate switch",
    head=(
        "message",
        "meaning, and what to do",
    ),
    before=(
        "Before kproxy holds writes: resolve each `error` first; each `warning` names clients that will notice more than a pause.\n"
        "While kproxy holds writes: the driver undoes everything, and the line has the reason."
    ),
    rows=(
        OwnMessage(
            "`cannot be queried: …`",
            "The driver does not reach the admin endpoint of this kproxy, or its token or certificate is not accepted. "
            "`switch.kproxies`, `token-file` and `ca` of the file name them.",
        ),
        OwnMessage(
            "`its clock differs from this machine's by at least … s: synchronize both by NTP`",
            "The report and the deadlines would be wrong.",
        ),
        OwnMessage(
            "`has no --state-dir: after a restart it would not know that it holds writes: start it with one`",
            "Add `state-dir` to its configuration; a reload is enough.",
        ),
        OwnMessage(
            "`has no cluster … that can be switched (it has …): correct switch.cluster in the file`, `has no upstream … (it has "
            "…): correct switch.target-upstream in the file`",
            "The file and the configuration of this kproxy have different names, or that kproxy has not been given its "
            "upstreams: a [reload](configuration.md#reload-of-upstreams) adds them.",
            fault=Fault.CONFIGURATION,
        ),
        OwnMessage(
            "`… finish it first, with kproxy migrate switch FILE --resume or --abort`, `route to different upstreams now: …`",
            "An earlier switch was broken off. The journal knows how far it was: one of the two commands ends it.",
        ),
        OwnMessage(
            "`… already routes to …`",
            "This kproxy has been switched, or its `active` is the target. Find out which kproxies are right before you "
            "continue.",
        ),
        OwnMessage(
            "`has a problem: …`",
            "A defect stopped its last switch: restart it. Or its `--state-dir` cannot be written: make room.",
        ),
        OwnMessage(
            "`its clients log in themselves…, and kproxy itself logs in to … (sasl): …`, `its clients log in themselves…, "
            "and the brokers of … take no login: …`, `its clients do not log in themselves…, and the brokers of … want a "
            "login: give upstream … credentials (sasl)`",
            "After the switch each client would be refused, again and again. Let kproxy log in to both upstreams, or "
            "clients to both ([migration-switch.md](migration-switch.md#before-the-day)).",
            fault=Fault.CREDENTIALS_REFUSED,
        ),
        OwnMessage(
            "`its clients log in themselves…: … must know the same users and mechanisms, which kproxy cannot try`",
            "Try one of them at the target itself before the switch, such as with `kcat`.",
        ),
        OwnMessage(
            "`cannot connect to its upstream …: see its log and /status`",
            "See [Reaching brokers](#reaching-brokers).",
        ),
        OwnMessage(
            "`… and the file names …: the copy would have other records`",
            "The kproxy and the file name different Kafka clusters. Correct the one that is wrong.",
            fault=Fault.WRONG_CLUSTER,
        ),
        OwnMessage(
            "`was started or killed a short time ago, and does not know which clients may retry writes: wait for … s`",
            "The same applies after a reload that has added its upstreams.",
        ),
        OwnMessage(
            "`clients lost the response to a write (…): the hold waits until they have retried it`",
            "Check whether these clients reach the brokers.",
        ),
        OwnMessage(
            "`have different versions: …: update them to one version before the switch`",
            "Each version supports only its own states and commands.",
        ),
        OwnMessage(
            "`the target assigns … and higher, and the source has ids up to …: records of two producers would be taken "
            "for records of one: run kproxy migrate prepare FILE`",
            "Both clusters number their producers from 0. `kproxy migrate prepare` raises the target's numbers.",
        ),
        OwnMessage(
            "`… offsets are still to be copied, and switch.max-lag allows …: run kproxy migrate copy FILE --follow until it "
            "has caught up`",
            "The rest of the copy would take longer than the hold may last.",
        ),
        OwnMessage(
            "`… too long for a hold of … s, of which … may be used for it: reduce the load, or give Spark more cores…`",
            "The rehearsal took longer than the hold may last.",
        ),
        OwnMessage(
            "`… would have other names on the target, and clients request the former names: migrate them without rename, or "
            "move their clients by hand`",
            "A switch changes no names in requests.",
        ),
        OwnMessage(
            "`… not migrated: their clients find no records of them on the target`, `is excluded by the file: its members "
            "start by auto.offset.reset`",
            "The file names other topics or groups. If that is intended, continue.",
        ),
        OwnMessage(
            "`is a share group: only its start offsets are kept`, `is a Kafka Streams application: running instances "
            "resume their tasks by themselves`, `is the group of Kafka Connect workers: they read their three topics again`, "
            "`a Spark query keeps positions in its checkpoint, not in a group`",
            "These clients see more than a pause; the line says what to do. [flip.md](flip.md) has a table.",
        ),
        OwnMessage(
            "`a franz-go consumer that was started before kproxy had both upstreams gets no records after the switch`",
            "It knows the ids of its topics ([flip.md](flip.md#franz-go)). Applications that were started since need "
            "nothing; kproxy cannot tell them apart.",
        ),
        OwnMessage(
            "`both sides know …, with different producer ids: an application that uses such a transactional id fails with a "
            "fatal error (fenced) at its next transaction: restart it after the switch`",
            "Usual at a rollback ([flip.md](flip.md#transactional-producers-that-are-moved-back)). Brokers remember unused "
            "ids for a week.",
        ),
        OwnMessage(
            "`has its position before … records of attempts of the copy that were aborted`",
            "Members of this group that read uncommitted records (the default of Java's consumers) read these records "
            "twice. Let the group read to its end before the switch, or set `isolation.level=read_committed`.",
        ),
        OwnMessage(
            "`a client writes to the source without kproxy`",
            "The source's logs grew while all kproxies held writes: a client that connects to the brokers directly, a job, "
            "or MirrorMaker. Find it by its producer id (`kafka-get-offsets`, the broker's request log), and stop it or "
            "let it connect through kproxy.",
        ),
        OwnMessage(
            "`the source's logs still grow: a client writes to it without kproxy`",
            "The same.",
        ),
        OwnMessage(
            "`… is not verified up to its end: …`",
            "The copy differs from the source there, so nothing was switched. `kproxy migrate verify` shows the differences.",
        ),
        OwnMessage(
            "`not all positions could be translated: …`",
            "The line names the first one. `kproxy migrate offsets` shows all of them, and why.",
        ),
        OwnMessage(
            "`… offsets beyond the end of the log`",
            "A group has a position beyond the end of the log: the topic was deleted and created again, or the log has lost "
            "records. Reset the group where it is, or name it with `--as-end` or `groups.as-end`: it then continues at the "
            "end of the log.",
        ),
        OwnMessage(
            "`transaction … on the source could not be ended: …`",
            "An application holds a transaction open, and the driver may not abort it: look at its rights "
            "([migration-switch.md](migration-switch.md)), or end the application.",
        ),
        OwnMessage(
            "`the copy of partition … of … is stuck: …`, `the copy did not end in time`, `the copy is paused: run "
            "kproxy migrate resume FILE`",
            "The copy must run during a switch. `kproxy migrate status` shows its state.",
        ),
    ),
)
