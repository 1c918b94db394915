"""Copying records of partitions to another cluster, exactly once. No Spark, no threads.

copier         copies slices that have the same transactional id
partitioncopy  one slice while it is copied
sourcelog      reads partitions of one broker of the source
producer       writes batches in transactions
offsetmap      maps offsets of the source to offsets of the target (pure)
state          the records of the state topic, and the slices of copy tasks with their results (pure)
statetopic     reads the state topic
clusterclient  metadata of a cluster, a connection to each broker, and retries
connection     a blocking connection to one broker
requests       encodes request bodies and decodes responses (pure)
errorcodes     the error codes that are retried, and advice for others (pure)
"""
