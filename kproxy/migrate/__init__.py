"""`kproxy migrate`: moving topics, with proof, from one cluster to another. All of PySpark that it needs is here.

copy           the copy: rounds of Spark jobs
repartition    topics of which Kafka Streams deletes what it has read
rounds         which slices a round has, and in which tasks (pure)
tasks          what runs in Spark's Python workers
control        who copies, and the orders of other commands
progress       how far the copy is
display        what a person sees of it
figures        numbers as people read them (pure)
exposed        its numbers for Prometheus
status         where a migration stands, from the target alone
copying        the commands copy, pause, resume, status
document        reads the YAML file
migration       what it says, and what follows for a topic and a group (pure)
roads           both clusters through kproxy, with Spark and without
administration  one connection for administration to a cluster
inventory       what is in a cluster (pure)
seeing          asking about what one may perhaps not see
topicstock      asks for the topics of a cluster
stocktaking     asks a cluster for all of it
changes         what has to be done on the target (pure)
estimate        how long it takes (pure)
finding         one thing to know before, and all that is looked at to find it (pure)
findings        what cannot be kept and what would be lost (pure)
rights          which rights are missing (pure)
plan            changes, findings and estimate (pure)
planshown       a plan for people
examining       asks both clusters and makes the plan
doing           does changes on the target, or only tries them
producerids     which ids the target hands out
journal         what was done, in the state topic
prepare         does the changes
undo            takes them back
identities      whether topics are those with which a migration began
between         what a log has between two offsets, and what of it was aborted
foreign         records on the target that kproxy did not copy
repeated        records that readers of uncommitted records see twice on the target
preparing       the commands plan, prepare, undo
sparksession    Spark's session for one command
positions       a position on the source, translated (pure)
groups          positions of groups in one cluster
shares          requests of share groups that kafka-python lacks
offsets         positions of groups, translated and written
checkpoint      Spark's checkpoints, translated
translating     the command offsets
switch          moving the clients, and the way back: a package of its own
commands        the group of commands
verifying       the command `verify`, and the function behind it
verify          which ranges of both sides are compared, job by job, and what follows
compared        one partition while it is verified
behind          what lies on the target behind the last copied record
tails           the end of each partition of the target, as a verification sees it
pieces          ranges of the source, what they are on the target, and in which jobs (pure)
logs            where logs begin and end, and which topics are compacted
hashing         both sides read by Spark's own Kafka source, and their hashes
blocks          whether two sides have the same records (pure)
compaction      which records may be missing in compacted topics
digests         single records of blocks in which something differs
differences     the first difference of a partition, exactly (pure)
results         what a verification found, and its form in the state topic (pure)
report          that for a terminal and for programs (pure)
reportpage      that as one HTML file (pure)
"""
