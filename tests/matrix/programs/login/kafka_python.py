"""Each line of the file is a login: write a record with kafka-python, and read it."""

# ruff: noqa: T201 (what it saw goes to stdout)

import ssl
import sys
import time
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider

PATIENCE_S = 60


class Token(AbstractTokenProvider):
    def __init__(self, path):
        self._path = path

    def token(self):
        return Path(self._path).read_text()


def settings(bootstrap, mechanism, user, password, token, ca, pem):
    context = ssl.create_default_context(cafile=ca)
    made = {"bootstrap_servers": bootstrap, "ssl_context": context, "security_protocol": "SASL_SSL"}
    if mechanism == "certificate":
        context.load_cert_chain(pem)
        return {**made, "security_protocol": "SSL"}
    made["sasl_mechanism"] = mechanism
    if mechanism == "OAUTHBEARER":
        return {**made, "sasl_oauth_token_provider": Token(token)}
    return {**made, "sasl_plain_username": user, "sasl_plain_password": password}


def run(name, topic, config):
    producer = KafkaProducer(**config)
    producer.send(topic, name.encode()).get(PATIENCE_S)
    producer.close()
    consumer = KafkaConsumer(topic, group_id=f"{topic}-{name}", auto_offset_reset="earliest", **config)
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        records = [record.value for batch in consumer.poll(500).values() for record in batch]
        if name.encode() in records:
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
