"""What can be wrong between a Kafka client and its brokers, and what to do about it: the one table of it (pure).

faults    `Fault`: the name of each cause
remedy    what is said of a cause: why, how to check, what to do; and which messages of clients it has
"""
