"""kproxy as a Kafka client: the few questions that it asks brokers itself.

asking      how a request gets to a broker and its response back: on a connection of its own, or within a session
frames      reading the responses of such a connection
request     a request as a frame
questions   what is asked: who is there, which node are you, which partitions do you lead (no I/O of its own)
"""
