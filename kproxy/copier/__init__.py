"""Copying one partition's records to another cluster, exactly once. No Spark, no threads.

offsetmap      which record of the target is which record of the source (pure)
state          what the target's state topic keeps of each partition, and its form there (pure)
"""
