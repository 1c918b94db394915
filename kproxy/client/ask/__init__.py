"""kproxy as a Kafka client: the few questions that kproxy itself asks brokers.

A *question* is a request together with the function that reads its response.

channel          sends a request and receives the response, on a connection of its own
frames           reads the response frames of such a connection
contents         the contents of a cluster: brokers, topics, groups (no I/O of its own)
listeners        a broker's listeners, from its settings (no I/O)
questions        which nodes exist, which node answers, which partitions it leads (no I/O of its own)
settings         a broker's own settings (no I/O of its own)
doctorquestions  questions of `kproxy doctor` only: features, a coordinator, mechanisms (no I/O of its own)
"""
