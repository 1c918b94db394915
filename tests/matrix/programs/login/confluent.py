"""Each line of the file is a login: write a record with confluent-kafka (librdkafka), and read it."""

# ruff: noqa: T201 (what it saw goes to stdout)

import sys
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer

PATIENCE_S = 60


def settings(bootstrap, mechanism, user, password, token, ca, pem):
    made = {"bootstrap.servers": bootstrap, "ssl.ca.location": ca}
    if mechanism == "certificate":
        return {**made, "security.protocol": "SSL", "ssl.certificate.location": pem, "ssl.key.location": pem}
    made |= {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        return {**made, "oauth_cb": lambda _: (Path(token).read_text(), time.time() + 300)}
    return {**made, "sasl.username": user, "sasl.password": password}


def run(name, topic, config):
    producer = Producer(config)
    producer.produce(topic, name)
    assert producer.flush(PATIENCE_S) == 0, "not written"
    consumer = Consumer({**config, "group.id": f"{topic}-{name}", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        record = consumer.poll(1)
        if record is not None and record.error() is None and record.value() == name.encode():
            consumer.close()
            return
    raise TimeoutError("not read")


for line in Path(sys.argv[1]).read_text().splitlines():
    name, bootstrap, topic, *login = line.split("\t")
    try:
        run(name, topic, settings(bootstrap, *login))
        print(name, "ok", flush=True)
    except Exception as error:  # noqa: BLE001
        print(name, repr(error), flush=True)
