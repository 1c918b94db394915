"""Positions of groups, translated and written.

between     what a log has between two offsets, and what of it was aborted
checkpoint  Spark's checkpoints, translated
foreign     records on the target that kproxy did not copy
offsets     positions of groups, translated and written
positions   a position on the source, translated (pure)
repeated    records that readers of uncommitted records see twice on the target
"""
