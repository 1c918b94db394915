"""Findings of `kproxy migrate switch`, and its reasons to undo a switch."""

from __future__ import annotations

from kproxy.base.faults import Fault
from kproxy.base.messages.message import Message, alike

KPROXY_NOT_QUERIED = Message(
    "cannot be queried: {error}",
    "The driver does not reach the admin endpoint of this kproxy, or its token or certificate is not accepted. "
    "`switch.kproxies`, `token-file` and `ca` of the file name them.",
)
CLOCK_DIFFERS = Message(
    "its clock differs from this machine's by at least {skew:.0f} s: synchronize both by NTP",
    "The report and the deadlines would be wrong.",
)
KPROXY_WITHOUT_STATE_DIR = Message(
    "has no --state-dir: after a restart it would not know that it holds writes: start it with one",
    "Add `state-dir` to its configuration; a reload is enough.",
)
NO_SUCH_CLUSTER, NO_SUCH_UPSTREAM = alike(
    "The file and the configuration of this kproxy have different names, or that kproxy has not been given its "
    "upstreams: a [reload](configuration.md#reload-of-upstreams) adds them.",
    "has no cluster {cluster} that can be switched (it has {clusters}): correct switch.cluster in the file",
    "has no upstream {target_upstream} (it has {upstreams}): correct switch.target-upstream in the file",
    fault=Fault.CONFIGURATION,
)
FINISH_SWITCH_FIRST, KPROXIES_DIFFER = alike(
    "An earlier switch was broken off. The journal knows how far it was: one of the two commands ends it.",
    "is in switch {switch} ({phase}): finish it first, with kproxy migrate switch FILE --resume or --abort",
    "route to different upstreams now: {actives}: finish the interrupted switch with kproxy migrate switch FILE --resume or --abort",
)
ALREADY_SWITCHED = Message(
    "already routes to {target_upstream}",
    "This kproxy has been switched, or its `active` is the target. Find out which kproxies are right before you "
    "continue.",
)
KPROXY_HAS_PROBLEM = Message(
    "has a problem: {problem}",
    "A defect stopped its last switch: restart it. Or its `--state-dir` cannot be written: make room.",
)
KPROXY_LOGS_IN, TARGET_TAKES_NO_LOGIN, TARGET_WANTS_LOGIN = alike(
    "After the switch each client would be refused, again and again. Let kproxy log in to both upstreams, or clients "
    "to both ([migration-switch.md](migration-switch.md#before-the-day)).",
    "its clients log in themselves{clients}, and kproxy itself logs in to {name} (sasl): it would refuse them after the switch. Take sasl away from upstream {name} and give it cluster-id; or let kproxy log in to both, and take the credentials from the clients before",
    "its clients log in themselves{clients}, and the brokers of {name} take no login: they would refuse them after the switch. Name a listener with SASL in bootstrap-servers of upstream {name}",
    "its clients do not log in themselves{clients}, and the brokers of {name} want a login: give upstream {name} credentials (sasl)",
    fault=Fault.CREDENTIALS_REFUSED,
)
TARGET_USERS_UNKNOWN = Message(
    "its clients log in themselves{mechanisms}: {name} must know the same users and mechanisms, which kproxy cannot try",
    "Try one of them at the target itself before the switch, such as with `kcat`.",
)
USER_WITHOUT_LOGIN = Message(
    "has no login for {upstream}: kproxy users login FILE {user} {upstream}, or let credentials-command or default-login have one",
    "After the switch this user would be refused. Each kproxy must have the login "
    "([logins.md](logins.md#logins-for-each-upstream)). It is an error for users whose clients are connected and for those that "
    "`users` names; of others, there are only ACLs or quotas, which may be old.",
    fault=Fault.CREDENTIALS_REFUSED,
)
USER_CANNOT_LOG_IN = Message(
    "cannot log in at {upstream}: {problem}",
    "kproxy has tried the login of this user at the other cluster, as it does for a session of the user. Correct the login in "
    "the users file or in what `credentials-command` prints, or create the user there.",
    fault=Fault.CREDENTIALS_REFUSED,
)
USER_HAS_OTHER_LOGIN = Message(
    "{kproxies} logs in at {upstream} as {other} for {user}, and ACLs and quotas are copied for {login}: correct users in the file, or the login",
    "`users` of the file and the logins of the kproxies must name the same user of the target. Otherwise a user would have "
    "other rights than before, and another name in the logs of the brokers.",
)
USER_LACKS_RIGHTS = Message(
    "logs in at {upstream}{login}, and is not allowed there: {rights}",
    "ACLs of the source give these rights to the user, and the brokers of the other cluster do not. Run `kproxy migrate "
    "prepare` again, which copies ACLs, or create them there; look for rules that deny.",
)
USER_RIGHTS_UNKNOWN = Message(
    "{kproxies} could not find out at {upstream} whether it is allowed: {reasons}",
    "These brokers do not report what a user may do, or have given another answer than Kafka's. Try it with a client of this "
    "user at the other cluster.",
)
LOGINS_NOT_TRIED = Message(
    "has not tried whether users can log in at {upstream}: {error}",
    "The driver asks each kproxy to log in to the other cluster for each user. Without that, some users might be refused after "
    "the switch.",
)
UPSTREAM_UNREACHABLE = Message(
    "cannot connect to its upstream {name}: see its log and /status",
    "See [Reaching brokers](#reaching-brokers).",
)
OTHER_CLUSTER_IN_FILE = Message(
    "its {side} upstream {name} is cluster {cluster_id}, and the file names {expected_id}: the copy would have other records",
    "The kproxy and the file name different Kafka clusters. Correct the one that is wrong.",
    fault=Fault.WRONG_CLUSTER,
)
RETRIES_UNKNOWN = Message(
    "was started or killed a short time ago, and does not know which clients may retry writes: wait for {uncertain_seconds:.0f} s",
    "The same applies after a reload that has added its upstreams.",
)
WRITE_WITHOUT_RESPONSE = Message(
    "clients lost the response to a write ({writers}): the hold waits until they have retried it, for up to some minutes",
    "Check whether these clients reach the brokers.",
)
VERSIONS_DIFFER = Message(
    "have different versions: {counts}: update them to one version before the switch",
    "Each version supports only its own states and commands.",
)
TOO_MUCH_LAG = Message(
    "{lag:,} offsets are still to be copied, and switch.max-lag allows {max_lag:,}: run kproxy migrate copy FILE --follow until it has caught up",
    "The rest of the copy would take longer than the hold may last.",
)
HOLD_TOO_LONG = Message(
    "{parts}: too long for a hold of {hold_seconds:g} s, of which {work_share:.0%} may be used for it: reduce the load, or give Spark more cores{hold_hint}",
    "The rehearsal took longer than the hold may last.",
)
TOPICS_RENAMED = Message(
    "{topics} would have other names on the target, and clients request the former names: migrate them without rename, or move their clients by hand",
    "A switch changes no names in requests.",
)
TOPICS_NOT_MIGRATED, GROUP_EXCLUDED = alike(
    "The file names other topics or groups. If that is intended, continue.",
    "{topics} not migrated: their clients find no records of them on the target",
    "is excluded by the file: its members start by auto.offset.reset",
)
SHARE_GROUP, STREAMS_GROUP, CONNECT_GROUP, SPARK_QUERY = alike(
    "These clients see more than a pause; the line says what to do. [flip.md](flip.md) has a table.",
    "is a share group: only its start offsets are kept, so records that were acknowledged beyond them, or are in flight, are delivered again",
    "is a Kafka Streams application: running instances resume their tasks by themselves; if an instance does not run during the switch, delete its state.dir before it starts, since that has offsets of the source's changelogs",
    "is the group of Kafka Connect workers: they read their three topics again; tasks that write in transactions restart them",
    "{clients}: a Spark query keeps positions in its checkpoint, not in a group: stop it before the switch, translate the checkpoint (kproxy migrate offsets --spark-checkpoint), and start it afterwards",
)
FRANZ_GO_CONSUMER = Message(
    "{clients}: a franz-go consumer that was started before kproxy had both upstreams gets no records after the switch: restart such applications before the switch",
    "It knows the ids of its topics ([flip.md](flip.md#franz-go)). Applications that were started since need "
    "nothing; kproxy cannot tell them apart.",
)
LEADER_EPOCH_LOWER = Message(
    "{clients}: librdkafka before 2.8 ignores a leader whose epoch is lower than the last one that it knows. If a partition had more leader changes on the side that clients leave, and another broker leads it on the other side, they may never find that leader: restart them if they do not continue",
    "Newer versions of librdkafka need nothing ([flip.md](flip.md)).",
)
PRODUCER_IDS_DIFFER = Message(
    "both sides know {ids}, with different producer ids: an application that uses such a transactional id fails with a fatal error (fenced) at its next transaction: restart it after the switch",
    "Usual at a rollback ([flip.md](flip.md#transactional-producers-that-are-moved-back)). Brokers remember unused "
    "ids for a week.",
)
POSITION_BEFORE_ABORTED = Message(
    "has its position before {records} records of attempts of the copy that were aborted, in partition {partition} of {topic} on the target: members that read uncommitted records (isolation.level=read_uncommitted) get them, and the same records again; let the group read to its end before the switch, or read committed records",
    "Members of this group that read uncommitted records (the default of Java's consumers) read these records twice. "
    "Let the group read to its end before the switch, or set `isolation.level=read_committed`.",
)
WRITE_WITHOUT_KPROXY = Message(
    "a client writes to the source without kproxy: partition {partition} of {topic} ended at {former_end} when all writes were held, and ends at {end} now{more}; stop such clients, or connect them through kproxy",
    "The source's logs grew while all kproxies held writes: a client that connects to the brokers directly, a job, "
    "or MirrorMaker. Find it by its producer id (`kafka-get-offsets`, the broker's request log), and stop it or let "
    "it connect through kproxy.",
)
SOURCE_STILL_GROWS = Message(
    "the source's logs still grow: a client writes to it without kproxy",
    "The same.",
)
PARTITION_NOT_VERIFIED = Message(
    "partition {partition} of {topic} is not verified up to its end: {why}{more}; kproxy migrate verify FILE shows details",
    "The copy differs from the source there, so nothing was switched. `kproxy migrate verify` shows the differences.",
)
POSITIONS_NOT_TRANSLATED = Message(
    "not all positions could be translated: {problem}{more}",
    "The line names the first one. `kproxy migrate offsets` shows all of them, and why.",
)
POSITION_BEYOND_END = Message(
    "it is {missing} offsets beyond the end of the log",
    "A group has a position beyond the end of the log: the topic was deleted and created again, or the log has lost "
    "records. Reset the group where it is, or name it with `--as-end` or `groups.as-end`: it then continues at the "
    "end of the log.",
)
TRANSACTION_NOT_ENDED = Message(
    "transaction {name} on the source could not be ended: {why}",
    "An application holds a transaction open, and the driver may not abort it: look at its rights "
    "([migration-switch.md](migration-switch.md)), or end the application.",
)
HANGING_TRANSACTION, PERHAPS_HANGING_TRANSACTION = alike(
    "The log of a partition has an open transaction that its coordinator does not know (KIP-664): readers of committed "
    "records, and the copy, stop there for ever. A broker that was killed can leave one behind. The command that the line "
    "shows aborts it, and needs Alter on the cluster. Without Describe on all transactional ids, kproxy cannot tell such a "
    "transaction from one of an application: grant it, and repeat the command.",
    "a transaction of producer id {producer_id} is open from offset {start} on, and no coordinator knows it: no switch can end before it is aborted: kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic {topic} --partition {partition} --start-offset {start}",
    "transactions are open in {places}, and no coordinator shows them: if no application has them, no switch can end before they are aborted. This login may not describe all transactional ids, or a coordinator is missing: allow Describe on transactional ids (*)",
)
COPY_STUCK, COPY_NOT_IN_TIME, COPY_PAUSED = alike(
    "The copy must run during a switch. `kproxy migrate status` shows its state.",
    "the copy of partition {partition} of {topic} is stuck: {why}{more}",
    "the copy did not end in time",
    "the copy is paused: run kproxy migrate resume FILE",
)
