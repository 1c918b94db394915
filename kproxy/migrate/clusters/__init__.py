"""Both clusters: connections to them, and what they have.

administration  one connection for administration to a cluster
groups          positions of groups in one cluster
identities      whether topics are those with which a migration began
inventory       what is in a cluster (pure)
logs            where logs begin and end, and which topics are compacted
producerids     which ids the target hands out
roads           both clusters through kproxy, with Spark and without
seeing          asking about what one may perhaps not see
stocktaking     asks a cluster for all of it
topicstock      asks for the topics of a cluster
shares          requests of share groups that kafka-python lacks
"""
