"""The copy, as Spark jobs.

copyrun       one run of the copy: rounds of Spark jobs
display       the progress of a copy on a terminal
prometheus    the metrics of a copy
progress      the progress of each partition and topic
repartition   repartition topics, from which Kafka Streams deletes the records that it has read
rounds        the slices of a round and their tasks (pure)
sparksession  the Spark session of one command
tasks         the code that runs in Spark's Python workers
scope         the topics and settings of a copy, from the migration file and both clusters
"""
