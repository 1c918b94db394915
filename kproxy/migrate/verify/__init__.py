"""Compares what was copied with the source, record by record.

behind       what lies on the target behind the last copied record
blocks       whether two sides have the same records (pure)
compaction   which records may be missing in compacted topics
compared     one partition while it is verified
differences  the first difference of a partition, exactly (pure)
digests      single records of blocks in which something differs
hashing      both sides read by Spark's own Kafka source, and their hashes
pieces       ranges of the source, what they are on the target, and in which jobs (pure)
report       that for a terminal and for programs (pure)
reportpage   that as one HTML file (pure)
results      what a verification found, and its form in the state topic (pure)
tails        the end of each partition of the target, as a verification sees it
verify       which ranges of both sides are compared, job by job, and what follows
running       one verification of a migration, and its result on the target
"""
