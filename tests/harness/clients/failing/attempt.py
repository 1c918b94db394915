"""The attempt of a client, as settings for each client."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kproxy.dev.devcluster.tools import Programs

_HERE = Path(__file__).parent
_WAIT_S = 60


@dataclass(frozen=True, slots=True)
class Attempt:
    """A record to send to a topic. A client gives up within seconds."""

    bootstrap: str
    protocol: str = "PLAINTEXT"
    mechanism: str = ""
    user: str = "alice"
    password: str = "alice-secret"
    ca: str = ""
    topic: str = "orders"
    patience_ms: int = 8000

    def arguments(self) -> list[str]:
        """Return the arguments for the programs of tests/matrix."""
        return [self.bootstrap, self.topic, self.protocol, self.mechanism, self.user, self.password, self.ca]

    def librdkafka(self) -> dict[str, str | int]:
        """Return librdkafka's settings."""
        settings: dict[str, str | int] = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": self.protocol,
            "message.timeout.ms": 4000,
            "socket.connection.setup.timeout.ms": 2000,
            "socket.timeout.ms": 3000,
        }
        if self.mechanism:
            settings |= {
                "sasl.mechanism": self.mechanism,
                "sasl.username": self.user,
                "sasl.password": self.password,
            }
        return settings | ({"ssl.ca.location": self.ca} if self.ca else {})

    def python(self) -> dict[str, object]:
        """Return the settings that kafka-python and aiokafka share."""
        settings: dict[str, object] = {"security_protocol": self.protocol}
        if self.mechanism:
            settings |= {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.user,
                "sasl_plain_password": self.password,
            }
        return settings

    def java(self) -> str:
        """Return a client.properties."""
        lines = [
            f"security.protocol={self.protocol}", "request.timeout.ms=3000", "default.api.timeout.ms=5000",
            "delivery.timeout.ms=5000", "linger.ms=0", "max.block.ms=5000", "socket.connection.setup.timeout.ms=2000",
            "retries=2",
        ]  # fmt: skip
        if self.mechanism:
            kind = "scram.Scram" if self.mechanism.startswith("SCRAM") else "plain.Plain"
            module = f"org.apache.kafka.common.security.{kind}LoginModule"
            login = f'{module} required username="{self.user}" password="{self.password}";'
            lines += [f"sasl.mechanism={self.mechanism}", f"sasl.jaas.config={login}"]
        if self.ca:
            lines += ["ssl.truststore.type=PEM", f"ssl.truststore.location={self.ca}"]
        return "\n".join(lines) + "\n"


Fails = Callable[[Attempt, Path], str]


def output(command: list[str], input: str | None = None, seconds: float = _WAIT_S) -> str:
    """Return the whole output of a program; end the program if it does not end by itself."""
    try:
        done = subprocess.run(
            command, input=input, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            timeout=seconds, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        return (error.stdout or b"").decode(errors="replace") if isinstance(error.stdout, bytes) else ""
    return done.stdout


def kcat(attempt: Attempt, _: Path) -> str:
    """Run kcat as a producer."""
    settings = [f"-X{name}={value}" for name, value in attempt.librdkafka().items()]
    return output(["kcat", "-P", "-t", attempt.topic, *settings], input="record\n", seconds=15)


def confluent(attempt: Attempt, _: Path) -> str:
    """Run confluent-kafka."""
    return output([sys.executable, str(_HERE / "confluent.py"), json.dumps(attempt.librdkafka()), attempt.topic])


def kafka_python(attempt: Attempt, _: Path) -> str:
    """Run kafka-python."""
    settings = attempt.python() | {
        "max_block_ms": 4000,
        "request_timeout_ms": 3000,
        "bootstrap_timeout_ms": attempt.patience_ms,
    }
    settings |= {"ssl_cafile": attempt.ca} if attempt.ca else {}
    program = str(_HERE / "kafka_python.py")
    return output([sys.executable, program, attempt.bootstrap, attempt.topic, json.dumps(settings)], seconds=25)


def aiokafka(attempt: Attempt, _: Path) -> str:
    """Run aiokafka."""
    settings = attempt.python() | {"request_timeout_ms": 3000} | ({"ca": attempt.ca} if attempt.ca else {})
    program = str(_HERE / "aio_kafka.py")
    return output([sys.executable, program, attempt.bootstrap, attempt.topic, json.dumps(settings)], seconds=15)


def java_producer(attempt: Attempt, directory: Path) -> str:
    """Run Kafka's console producer."""
    return _java(attempt, directory, "kafka-console-producer", "--topic", attempt.topic, option="--command-config")


def java_admin(attempt: Attempt, directory: Path) -> str:
    """Run Kafka's tool for topics."""
    return _java(attempt, directory, "kafka-topics", "--describe", "--topic", attempt.topic, option="--command-config")


def _java(attempt: Attempt, directory: Path, tool: str, *args: str, option: str) -> str:
    file = directory / "client.properties"
    file.write_text(attempt.java())
    command = Programs.of().command(tool, "--bootstrap-server", attempt.bootstrap, option, str(file), *args)
    return output(command, input="record\n")


CLIENTS: dict[str, Fails] = {
    "kcat": kcat,
    "confluent-kafka": confluent,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
    "java-producer": java_producer,
    "java-admin": java_admin,
}
