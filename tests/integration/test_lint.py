"""What `kproxy lint` finds is wrong for real brokers and real clients, and what it makes of it works with both."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from kproxy.advice.lint import fixes, properties
from kproxy.advice.lint.images import property_name
from kproxy.advice.lint.linter import LintOptions, lint
from kproxy.advice.lint.model import ImageFamily
from kproxy.advice.lint.source import SourceFile
from kproxy.base.address import Address
from kproxy.dev.devcluster import DEFAULT_VERSION, DevCluster, Programs
from kproxy.dev.devcluster import properties as props
from kproxy.dev.devcluster.properties import render
from kproxy.dev.devcluster.readiness import live_brokers
from kproxy.net.freeports import free_ports
from tests.harness.process import PATIENCE_S, wait_until
from tests.harness.topics import needs_kcat

pytestmark = [pytest.mark.integration, needs_kcat]

SMALL = """
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
log.cleaner.dedupe.buffer.size=8388608
log.index.size.max.bytes=1048576
num.network.threads=2
num.io.threads=2
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A node that is broker and controller. `setting` replaces a line of the healthy file, or adds one; None removes
    it. `said`: what the broker says when it does not start."""

    setting: Mapping[str, str | None]
    rule: str
    said: str


LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="b";'
# A listener with SASL beside the one without.
SASL = {
    "listeners": "PLAINTEXT://127.0.0.1:{client},CLIENTS://127.0.0.1:{spare},CONTROLLER://127.0.0.1:{controller}",
    "advertised.listeners": "PLAINTEXT://127.0.0.1:{client},CLIENTS://127.0.0.1:{spare}",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
}

CASES = {
    "no protocol for a name": Case(
        {
            "listeners": "EXTERNAL://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": "EXTERNAL://127.0.0.1:{client}",
            "inter.broker.listener.name": "EXTERNAL",
        },
        "protocol-map-missing",
        "No security protocol defined for listener EXTERNAL",
    ),
    "the wildcard is advertised": Case(
        {"advertised.listeners": "PLAINTEXT://0.0.0.0:{client}"},
        "advertised-wildcard",
        "nonroutable meta-address 0.0.0.0",
    ),
    "an unknown inter-broker listener": Case(
        {"inter.broker.listener.name": "INTERNAL"},
        "inter-broker-unknown",
        "Listener with name INTERNAL defined in inter.broker.listener.name not found",
    ),
    "two settings for the inter-broker listener": Case(
        {"security.inter.broker.protocol": "PLAINTEXT"},
        "inter-broker-twice",
        "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set",
    ),
    "two listeners with one port": Case(
        {
            "listeners": "PLAINTEXT://127.0.0.1:{client},SECOND://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECOND:PLAINTEXT,CONTROLLER:PLAINTEXT",
        },
        "duplicate-port",
        "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6",
    ),
    "an unknown listener is advertised": Case(
        {"advertised.listeners": "PLAINTEXT://127.0.0.1:{client},EXTERNAL://127.0.0.1:{spare}",
         "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"},
        "advertised-unknown-listener",
        "must be equal to or a subset of the ones defined in listeners",
    ),
    "a controller without its listener": Case(
        {"listeners": "PLAINTEXT://127.0.0.1:{client}"},
        "controller-listener-missing",
        "must contain at least one value appearing in the 'listeners' configuration",
    ),
    "a controller that is no voter": Case(
        {"controller.quorum.voters": "2@127.0.0.1:{controller}"},
        "voter-missing",
        "must be included in the set of voters",
    ),
    "a prefix in capitals": Case(
        {**SASL, "listener.name.CLIENTS.plain.sasl.jaas.config": LOGIN},
        "listener-prefix",
        "Could not find a 'KafkaServer' or 'clients.KafkaServer' entry in the JAAS configuration",
    ),
    "a login without a prefix": Case(
        {**SASL, "sasl.jaas.config": LOGIN},
        "jaas-prefix-missing",
        "Could not find a 'KafkaServer' or 'clients.KafkaServer' entry in the JAAS configuration",
    ),
    "a login without a semicolon": Case(
        {**SASL, "listener.name.clients.plain.sasl.jaas.config": LOGIN.removesuffix(";")},
        "jaas-semicolon",
        "JAAS config entry not terminated by semi-colon",
    ),
    "a mechanism with dots": Case(
        {
            **SASL,
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.clients.scram.sha.512.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
        },
        "listener-prefix",
        "Could not find a 'KafkaServer' or 'clients.KafkaServer' entry in the JAAS configuration",
    ),
    "two ids": Case({"broker.id": "77"}, "node-id-differs", "same value"),
    "ZooKeeper's roles": Case({"process.roles": "Broker,controller"}, "process-roles", "process.roles"),
}  # fmt: skip


@pytest.fixture(scope="module")
def programs() -> Programs:
    return Programs.of(DEFAULT_VERSION)


class Ground:
    """Ports and a directory for one node, and the processes that run there."""

    def __init__(self, programs: Programs, directory: Path) -> None:
        self.programs = programs
        self.directory = directory
        client, controller, spare = free_ports(3)
        self.ports = {"client": client, "controller": controller, "spare": spare}
        self.client = Address("127.0.0.1", client)

    def text(self, setting: Mapping[str, str | None]) -> str:
        healthy = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": "1@127.0.0.1:{controller}",
            "listeners": "PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": "PLAINTEXT://127.0.0.1:{client}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        }
        said = {key: value for key, value in {**healthy, **setting}.items() if value is not None}
        lines = [f"{key}={value.format(**self.ports)}\n" for key, value in said.items()]
        return "# A node\n" + "".join(lines) + f"log.dirs={self.directory / 'data'}\n" + SMALL

    def write(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.write_text(text)
        return path

    def format(self, path: Path) -> None:
        done = self.programs.run("kafka-storage", "format", "-t", props.new_uuid(), "-c", str(path))
        assert done.returncode == 0, done.stderr or done.stdout

    def refuses(self, path: Path) -> str:
        """What a node says that ends by itself."""
        done = subprocess.run(
            self.programs.command("kafka.Kafka", str(path), log_level="info"),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert done.returncode != 0, done.stdout[-2000:]
        return done.stdout

    @contextmanager
    def running(self, path: Path, address: Address) -> Iterator[None]:
        log = self.directory / "kafka.log"
        with log.open("wb") as output:
            command = self.programs.command("kafka.Kafka", str(path), log_level="info")
            node = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:

            def ready() -> bool:
                assert node.poll() is None, log.read_text()[-2000:]
                try:
                    return bool(live_brokers(address))
                except OSError:
                    return False

            wait_until(ready, "the broker")
            yield
        finally:
            node.kill()
            node.wait()


@pytest.fixture
def ground(programs: Programs, tmp_path: Path) -> Ground:
    return Ground(programs, tmp_path)


def works(address: Address) -> None:
    """A real client writes a record and reads it."""
    kcat("-b", str(address), "-P", "-t", "linted", "-p", "0", "-X", "message.timeout.ms=30000", input="a record\n")
    read = kcat("-b", str(address), "-C", "-t", "linted", "-p", "0", "-o", "beginning", "-c", "1", "-q")
    assert read == "a record\n"


def kcat(*args: str, input: str | None = None, fails: bool = False) -> str:
    done = subprocess.run(["kcat", *args], input=input, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr if fails else done.stdout


def corrected(name: str, text: str, rule: str, host: str = "") -> str:
    """The text as --fix makes it; the rule must have found it."""
    options = LintOptions(advertise=host)
    before = lint([SourceFile(name, text)], options)
    assert rule in {finding.rule for finding in before.findings}
    fixed = fixes.fix(before, options)
    assert not fixed.after.has_mistakes, [finding.text for finding in fixed.after.findings]
    return fixed.after.sources[0].text


# Each starts a broker twice.
QUICK = ("no protocol for a name", "two listeners with one port")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.matrix) for name in CASES]
)
def test_a_broker_starts_with_the_corrected_file_only(name: str, ground: Ground) -> None:
    case = CASES[name]
    broken = ground.text(case.setting)
    mended = ground.write("mended.properties", corrected("server.properties", broken, case.rule, "127.0.0.1"))
    ground.format(mended)
    assert case.said in ground.refuses(ground.write("broken.properties", broken))
    with ground.running(mended, ground.client):
        works(ground.client)


REFUSED = {
    "a voter without a port": Case({"controller.quorum.voters": "1@127.0.0.1"}, "voter-address", "voter"),
    "an id that is no number": Case(
        {"node.id": "kafka-0"}, "node-id-number", "Invalid value kafka-0 for configuration"
    ),
    "quotes around a list": Case(
        {"listeners": '"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}"'},
        "listener-syntax",
        'No security protocol defined for listener "PLAINTEXT',
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_broker_does_not_start_with_what_only_a_person_can_correct(name: str, ground: Ground) -> None:
    case = REFUSED[name]
    text = ground.text(case.setting)
    assert case.rule in {finding.rule for finding in lint([SourceFile("server.properties", text)]).findings}
    assert case.said in ground.refuses(ground.write("broken.properties", text))


def test_a_healthy_file_starts(ground: Ground) -> None:
    text = ground.text({})
    assert list(lint([SourceFile("server.properties", text)]).findings) == []
    path = ground.write("server.properties", text)
    ground.format(path)
    with ground.running(path, ground.client):
        works(ground.client)


def test_a_broker_that_advertises_the_controllers_listener(programs: Programs, tmp_path: Path) -> None:
    """It is only a broker, so it needs a cluster that has its controller elsewhere."""
    with DevCluster(1) as cluster:
        ground = Ground(programs, tmp_path)
        data = tmp_path / "data"
        data.mkdir()
        (data / "meta.properties").write_text(render(props.meta_properties(cluster.cluster_id, 2)))
        healthy = properties.parse(
            SourceFile("x", (cluster.directory / "node-1" / "kafka.properties").read_text())
        ).values
        port = ground.client.port
        own = {
            "node.id": "2",
            "log.dirs": str(data),
            "listeners": f"INTERNAL://127.0.0.1:{port}",
            "advertised.listeners": f"INTERNAL://127.0.0.1:{port},CONTROLLER://{cluster.controller_bootstrap}",
        }
        broken = render({**{key: value.text for key, value in healthy.items()}, **own})
        mended = corrected("server.properties", broken, "controller-advertised")
        # Kafka 4 ignores it, so it is an older broker that does not start.
        older = Ground(Programs.of("3.1.2"), tmp_path)
        refusal = older.refuses(ground.write("broken.properties", broken))
        assert "advertised.listeners config must not contain KRaft controller listeners" in refusal
        with ground.running(ground.write("mended.properties", mended), ground.client):
            wait_until(lambda: {1, 2} <= live_brokers(ground.client).keys(), "both brokers")
            works(ground.client)


COMPOSE = """\
services:
  kafka:
    image: apache/kafka:4.0.0
    ports:
      - "{client}:{client}"  # for programs on this machine
    environment:
      KAFKA_NODE_ID: 1
      KAFKA_PROCESS_ROLES: broker,controller
      KAFKA_LISTENERS: PLAINTEXT://:{client},CONTROLLER://127.0.0.1:{controller}
      KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://kafka:{client}
      KAFKA_CONTROLLER_LISTENER_NAMES: CONTROLLER
      KAFKA_CONTROLLER_QUORUM_VOTERS: 1@127.0.0.1:{controller}
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1
      KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: 1
"""


def as_the_image_starts_it(compose: str, data: Path) -> str:
    """The properties that the image makes of the variables of a Compose file."""
    variables = yaml.safe_load(compose)["services"]["kafka"]["environment"]
    said = {property_name(ImageFamily.APACHE, word): str(value) for word, value in variables.items()}
    return "".join(f"{key}={value}\n" for key, value in said.items()) + f"log.dirs={data}\n" + SMALL


@pytest.mark.matrix
def test_a_containers_name_misleads_a_client_on_the_host(ground: Ground) -> None:
    """The broker starts, and the client reaches it; then it is sent to a name that only containers know."""
    broken = COMPOSE.format(**ground.ports)
    mended = corrected("compose.yml", broken, "container-name-advertised")
    assert "# for programs on this machine" in mended
    paths = [
        ground.write(name, as_the_image_starts_it(text, ground.directory / "data"))
        for name, text in (("broken.properties", broken), ("mended.properties", mended))
    ]
    ground.format(paths[0])
    with ground.running(paths[0], ground.client):
        said = kcat(
            "-b", str(ground.client), "-P", "-t", "linted", "-X", "message.timeout.ms=5000", input="x\n", fails=True
        )
        assert "kafka" in said
    with ground.running(paths[1], ground.client):
        works(ground.client)


@pytest.mark.matrix
def test_a_listener_that_is_not_advertised_names_no_broker(ground: Ground) -> None:
    broken = ground.text(
        {
            "listeners": "PLAINTEXT://127.0.0.1:{client},EXTERNAL://127.0.0.1:{spare},"
            "CONTROLLER://127.0.0.1:{controller}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        }
    )
    mended = ground.write(
        "mended.properties", corrected("server.properties", broken, "listener-not-advertised", "127.0.0.1")
    )
    ground.format(mended)
    external = Address("127.0.0.1", ground.ports["spare"])
    with ground.running(ground.write("broken.properties", broken), ground.client):
        works(ground.client)
        assert " 0 brokers" in kcat("-b", str(external), "-L", "-t", "linted")
    with ground.running(mended, ground.client):
        works(external)
