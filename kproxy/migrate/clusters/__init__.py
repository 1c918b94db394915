"""Connections to both clusters, and what each of them contains.

administration    a connection for administration to a cluster
endpoints         the local addresses of both clusters behind kproxy, with Spark and without
groups            the groups of one cluster: the client ids of their members, and their committed offsets
inventory         the contents of a cluster (pure)
inventory_reader  reads the inventory of a cluster
log_bounds        first and last offsets of logs, and which topics are compacted
producerids       the producer ids that the target assigns
topic_identities  detects topics that were deleted or recreated since the migration began
topic_reader      reads the topics of a cluster, as far as the principal may
shares            requests for share groups that kafka-python lacks
"""
