"""Each line of the file is a login: write a record with aiokafka, and read it."""

# ruff: noqa: T201 (what it saw goes to stdout)

import asyncio
import ssl
import sys
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider

PATIENCE_S = 60


class Token(AbstractTokenProvider):
    def __init__(self, path):
        self._token = Path(path).read_text()

    async def token(self):
        return self._token


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


async def run(name, topic, config):
    async with AIOKafkaProducer(**config) as producer:
        await producer.send_and_wait(topic, name.encode())
    made = AIOKafkaConsumer(topic, group_id=f"{topic}-{name}", auto_offset_reset="earliest", **config)
    async with made as consumer:
        async for record in consumer:
            if record.value == name.encode():
                return


async def main(lines):
    for line in lines:
        name, bootstrap, topic, *login = line.split("\t")
        try:
            await asyncio.wait_for(run(name, topic, settings(bootstrap, *login)), PATIENCE_S)
            print(name, "ok", flush=True)
        except Exception as error:  # noqa: BLE001
            print(name, repr(error), flush=True)


asyncio.run(main(Path(sys.argv[1]).read_text().splitlines()))
