"""Real clients that fail on purpose: their whole output is what `kproxy explain` is given.

attempt       `Attempt`: what a client tries; how each client is told
kafka_python  a producer of kafka-python, in a process of its own
aio_kafka     a producer of aiokafka
confluent     a producer of confluent-kafka
"""
