"""The copy, as Spark jobs.

copy          the copy: rounds of Spark jobs
display       what a person sees of it
exposed       its numbers for Prometheus
progress      how far the copy is
repartition   topics of which Kafka Streams deletes what it has read
rounds        which slices a round has, and in which tasks (pure)
sparksession  Spark's session for one command
tasks         what runs in Spark's Python workers
scope         what a copy copies, from the file and from what both clusters have
"""
