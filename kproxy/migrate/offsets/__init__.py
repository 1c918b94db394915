"""Translation of group offsets and Spark checkpoints from the source to the target.

log_ranges  the batches between two offsets of a log, and records that kproxy did not copy
checkpoint  translates Spark's checkpoints
groupsync   translates the committed offsets of groups, and writes them to the target
positions   translates one offset of the source (pure)
duplicates  records that a read_uncommitted consumer receives twice on the target
"""
