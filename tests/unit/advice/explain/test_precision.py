"""An answer for this text and not for its family: signs in other lines and in the address decide."""

from __future__ import annotations

import io

import pytest

from kproxy.advice.explain.explanation import Explanation, explain
from kproxy.advice.explain.output import render

MSK = "b-1.demo.abcdef.c3.kafka.eu-west-1.amazonaws.com"
REFUSED = "kafka-go: could not successfully authenticate to {} with SASL: [58] SASL Authentication Failed: SASL Authentication failed"
EVENT_HUBS = (
    '.setProperty("bootstrap.servers","demo.servicebus.windows.net:9093")\n.setProperty("security.protocol", "{}")\n'
)
NO_TOPIC = (
    "Caused by: org.apache.kafka.common.errors.TimeoutException: Topic orders not present in metadata after 60000 ms."
)


def explained(text: str) -> Explanation:
    return explain(io.BytesIO(text.encode()))


def said(text: str) -> str:
    return " ".join(render(explained(text)).split())


@pytest.mark.parametrize(
    ("text", "heading", "absent"),
    [
        (
            "kafka org.apache.kafka.common.KafkaException: The OAuth validator configuration encountered an error when initializing the VerificationKeyResolver",
            "The broker cannot read the keys of the token server (JWKS)",
            "Correct the path, the rights",
        ),
        (
            "java.lang.IllegalArgumentException: KrbException: Cannot locate default realm",
            "The program does not know its Kerberos realm",
            "klist",
        ),
        (
            "kafka.errors: KafkaException: Failed to construct kafka producer\nCaused by: java.io.IOException: keystore password was incorrect",
            "The password of the key store or trust store is wrong",
            "Correct the path, the rights",
        ),
        (
            "kafka.(*Client).Produce: [58] SASL Authentication Failed: SASL Authentication failed: [d1f0a3]: Session too short.",
            "The credentials of AWS have expired, or end too soon",
            "The user or password is wrong",
        ),
        (REFUSED.format(f"{MSK}:9098"), "Amazon MSK refuses the credentials of AWS", "Correct `sasl.jaas.config`"),
        (REFUSED.format("k.example:9093"), "The broker refuses the user or password", "Amazon"),
        (
            "java.lang.IllegalArgumentException: No MetadataVersion with metadata version 11\n\tat org.apache.kafka.server.common.MetadataVersion.fromFeatureLevel(MetadataVersion.java:237)",
            "The version of the metadata is too old or too new for this broker",
            "voters",
        ),
    ],
)  # fmt: skip
def test_the_heading_names_the_mistake_and_the_advice_is_for_it(text: str, heading: str, absent: str) -> None:
    first_line = said(text).partition(" [")[0]

    assert heading in first_line
    assert absent not in said(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "WARN Session 0x0 for server zk/10.0.0.9:2181, Closing socket connection. Attempting reconnect except it is a SessionExpiredException. (org.apache.zookeeper.ClientCnxn)\njava.net.ConnectException: Connection refused",
            "does not reach ZooKeeper",
        ),
        (
            "KrbException: Server not found in Kerberos database (7) - UNKNOWN_SERVER\n\tat org.apache.zookeeper.client.ZooKeeperSaslClient$1.run(ZooKeeperSaslClient.java:300)",
            "ZooKeeper refuses the login",
        ),
    ],
)  # fmt: skip
def test_zookeeper_is_named_and_not_taken_for_kafka(text: str, says: str) -> None:
    assert explained(text).is_elsewhere
    assert says in said(text)


@pytest.mark.parametrize(
    ("protocol", "faults"),
    [
        ("PLAINTEXT", ["plaintext-to-tls"]),
        ("SASL_PLAINTEXT", ["plaintext-to-tls"]),
        ("SASL_SSL", ["name-not-resolved"]),
    ],
)
def test_a_protocol_in_the_text_decides_at_the_address_of_a_cloud(protocol: str, faults: list[str]) -> None:
    explanation = explained(EVENT_HUBS.format(protocol) + NO_TOPIC)

    assert explanation.server == "demo.servicebus.windows.net:9093"
    assert [cause.faults[0].value for cause in explanation.causes] == faults


def test_a_vague_message_at_the_address_of_a_cloud_proves_no_protocol() -> None:
    explanation = explained("bootstrap.servers=demo.servicebus.windows.net:9093\n" + NO_TOPIC)

    assert len(explanation.causes[0].faults) > 1


def test_settings_of_several_clients_decide_nothing() -> None:
    text = "security.protocol = PLAINTEXT\nsecurity.protocol = SASL_SSL\n"

    assert len(explained(text + "bootstrap.servers=demo.servicebus.windows.net:9093\n" + NO_TOPIC).causes[0].faults) > 1


def test_a_controller_that_reaches_itself_in_place_of_a_broker() -> None:
    text = "WARN [Controller id=1002, targetBrokerId=1001] Connection to node 1001 (/127.0.0.1:9092) could not be established. Broker may not be available. (org.apache.kafka.clients.NetworkClient)"

    assert [cause.faults for cause in explained(text).causes] == [("loopback-advertised",)]
    assert "inter.broker.listener.name" in said(text)
    assert "kproxy run" not in said(text)


def test_an_ip_address_is_not_a_name_that_cannot_be_resolved() -> None:
    text = "ERROR kafka.errors.KafkaConnectionError: Unable to bootstrap from [('10.0.0.7', 9092, <AddressFamily.AF_UNSPEC: 0>)]"

    assert "name-not-resolved" not in explained(text).causes[0].faults


def test_a_handshake_that_a_broker_names_explains_how_its_client_ends() -> None:
    broker = "INFO [SocketServer nodeId=1] Failed authentication with /10.0.0.5 (SSL handshake failed) (org.apache.kafka.common.network.Selector)"
    client = "WARN [Consumer clientId=c] Connection to node -1 (b/10.0.0.4:19093) terminated during authentication. (org.apache.kafka.clients.NetworkClient)"

    (cause,) = explained(f"{broker}\n{client}").causes
    assert "credentials-refused" not in cause.faults
    assert [match.text for match in cause.consequences] == ["Connection to node … terminated during authentication"]


@pytest.mark.parametrize(
    "line",
    [
        "ERROR:kafka.conn:Connect attempt to <BrokerConnection node_id=bootstrap host=k.example/10.0.0.1 port=9092> returned error 111. Disconnecting.",
        "kafka.errors.KafkaConnectionError: Unable to bootstrap from [('k.example', 9092, <AddressFamily.AF_UNSPEC: 0>)]",
    ],
)  # fmt: skip
def test_the_addresses_of_pythons_clients(line: str) -> None:
    assert explained(line).server == "k.example:9092"
