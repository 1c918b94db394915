"""Translation of group offsets and Spark checkpoints from the source to the target.

aborted_ranges   the batches between two offsets of a log, and which of them were aborted
checkpoint       translates Spark's checkpoints
unknown_records  counts records on the target that kproxy did not copy
groupsync        translates the committed offsets of groups, and writes them to the target
positions        translates one offset of the source (pure)
duplicates       records that a read_uncommitted consumer receives twice on the target
"""
