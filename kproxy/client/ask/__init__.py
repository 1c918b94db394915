"""kproxy as a Kafka client: the few questions that kproxy itself asks brokers.

asking      sends a request and gets the response, on a connection of its own
frames      reads the responses of such a connection
contents    what is in a cluster: brokers, topics, groups (no I/O of its own)
listeners   a broker's listeners, from its settings (no I/O)
questions   which nodes exist, which node answers, which partitions it leads (no I/O of its own)
settings    what a broker says of its own settings (no I/O of its own)
survey      what only `kproxy doctor` asks: features, a coordinator, mechanisms (no I/O of its own)
"""
