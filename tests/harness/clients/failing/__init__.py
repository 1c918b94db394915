"""Real clients that fail on purpose; `kproxy explain` gets their whole output.

attempt       `Attempt`: the attempt of a client, as settings for each client
kafka_python  a producer of kafka-python, in a separate process
aio_kafka     a producer of aiokafka
confluent     a producer of confluent-kafka
"""
