"""Copying one partition's records to another cluster, exactly once. No Spark, no threads.

copier         copies a slice
sourcelog      reads one partition of the source
slices         a task's slice of a partition, and its result (pure)
producer       writes batches in transactions
offsetmap      maps offsets of the source to offsets of the target (pure)
state          the records of the state topic and their JSON form (pure)
statetopic     reads the state topic
clusterclient  metadata of a cluster, and a connection to each broker
retries        retries with backoff for errors that are retriable
connection     a blocking connection to one broker
requests       encodes request bodies and decodes responses (pure)
errorcodes     Kafka's error codes, which are retriable, and advice for the others (pure)
"""
