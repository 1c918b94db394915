"""Copying one partition's records to another cluster, exactly once. No Spark, no threads.

copier         copies a slice
sourcelog      reads one partition of the source
slices         what a task is given to do, and what it says of it (pure)
producer       writes batches in transactions
offsetmap      which record of the target is which record of the source (pure)
state          what the target's state topic keeps of each partition, and its form there (pure)
statetopic     reading it
cluster        who leads what, and a connection to each broker
patience       trying again while it may help
link           one connection
requests       request bodies, and reading the answers (pure)
codes          Kafka's error codes, and what is to be done then (pure)
"""
