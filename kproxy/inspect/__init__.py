"""Commands that ask a live cluster, or search for one, and show the result.

discover  possible Kafka clusters
doctor    why a client fails
listing   the contents of a cluster
"""
