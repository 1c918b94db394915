"""kproxy as a Kafka client: the few questions that kproxy itself asks brokers.

A *question* is a request together with the function that reads its response.

channel          sends requests and receives responses, on a connection of its own
contents         the contents of a cluster: brokers, topics, groups (no I/O of its own)
question         one question to a broker, sent and answered over a channel
questions        which nodes exist, which node answers, which partitions it leads (no I/O of its own)
rights           what the user of a connection may do (no I/O of its own)
usage            a topic and a group, as a client uses them (no I/O of its own)
settings         a broker's own settings, its listeners, features and SASL mechanisms (no I/O of its own)
"""
