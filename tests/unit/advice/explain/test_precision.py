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
        (
            "WARN Client session timed out, have not heard from server in 6009ms for sessionid 0x0 (org.apache.zookeeper.ClientCnxn)",
            "does not reach ZooKeeper",
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


def test_the_name_of_a_bootstrap_server_needs_other_advice_than_an_advertised_one() -> None:
    text = "%3|1|FAIL|rdkafka#consumer-1| [thrd:kafka:9092/bootstrap]: kafka:9092/bootstrap: Failed to resolve 'kafka:9092': Name or service not known"

    assert said(text).startswith("error: The name of the bootstrap server cannot be resolved")
    assert "advertised.listeners" not in said(text)
    assert "Run kproxy" not in said(text)


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("ERROR [Connection] kafkajs Connection error: getaddrinfo ENOTFOUND kafka", False),
        ("ERROR [Connection] kafkajs Connection error: getaddrinfo ENOTFOUND 591ebfb6bdec", True),
        ("%3|1|FAIL|rdkafka#p-1| [thrd:kafka:9092/1]: kafka:9092/1: Failed to resolve 'kafka:9092': no such", True),
        ("bootstrap.servers=k.example:9093\nkafka: dial tcp: lookup kafka on 10.0.0.1:53: no such host", True),
    ],
)  # fmt: skip
def test_the_heading_says_that_a_broker_advertises_a_name_only_if_the_text_shows_it(text: str, claims: bool) -> None:
    assert explained(text).causes[0].faults == ("container-name-advertised",)
    assert ("A broker advertises a container's name" in said(text)) is claims


def test_what_an_address_resolves_to_is_the_same_address() -> None:
    text = (
        "ERROR [Producer clientId=p] Connection to node -1 (mw-m2/10.0.128.237:30346) failed authentication due to: SSL handshake failed (org.apache.kafka.clients.NetworkClient)\n"
        "WARN [Producer clientId=p] Bootstrap broker 10.0.128.237:30346 (id: -1 rack: null) disconnected (org.apache.kafka.clients.NetworkClient)\n"
        "Caused by: java.security.cert.CertificateException: No subject alternative DNS name matching mw-m2 found."
    )  # fmt: skip

    assert [cause.faults for cause in explained(text).causes] == [("certificate-name",)]


@pytest.mark.parametrize(
    ("reason", "fault"),
    [
        ("The broker does not support DESCRIBE_CONFIGS", "broker-too-old"),
        ("org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics: [orders]", "not-authorized"),
    ],
)  # fmt: skip
def test_a_summary_at_the_end_is_no_second_cause(reason: str, fault: str) -> None:
    text = f"ERROR {reason} (io.confluent.ksql.util.KafkaTopicClient:270)\nERROR Failed to start KSQL (io.confluent.ksql.rest.server.KsqlServerMain:48)"

    assert [cause.faults for cause in explained(text).causes] == [(fault,)]


def test_all_bootstrap_servers_of_a_list_are_read() -> None:
    text = f"bootstrap.servers = [b-2{MSK[3:]}:9094, b-1{MSK[3:]}:9094]\nsecurity.protocol = PLAINTEXT\n"

    (cause,) = explained(text + NO_TOPIC).causes
    assert cause.faults == ("plaintext-to-tls",)
    assert "At this address, Amazon MSK demands" in said(text + NO_TOPIC)


@pytest.mark.parametrize(
    ("text", "heading"),
    [
        (
            "Caused by: org.apache.kafka.common.errors.DisconnectException: Cancelled fetchMetadata request with correlation id 701 due to node 1 being disconnected",
            "A connection that was in use has ended",
        ),
        (
            "%3|1|FAIL|rdkafka#p-1| b.example:9092/3: Failed to connect to broker at b.example:9092: Cannot assign requested address",
            "The client's machine has no free local port",
        ),
        (
            "java.lang.IllegalStateException: Coordinator selected invalid assignment protocol: null",
            "The members of the group do not agree",
        ),
    ],
)  # fmt: skip
def test_a_message_of_one_kind_is_not_named_by_another_kind_of_its_family(text: str, heading: str) -> None:
    assert heading in said(text).partition(" [")[0]


def test_the_thread_of_librdkafka_does_not_make_a_broker_a_bootstrap_server() -> None:
    text = "%3|1|FAIL|rdkafka#c-1| [thrd:sasl_ssl://b.example:9094/bootstrap]: sasl_ssl://b.example:9094/26: Failed to verify broker certificate: certificate has expired"

    assert "the advertised address of broker 26" in said(text)
    assert "is a bootstrap server" not in said(text)


@pytest.mark.parametrize(
    ("text", "heading"),
    [
        (
            "WARN [RaftManager id=0] Error connecting to node kafka-1:9093 (id: 1 rack: null) (org.apache.kafka.clients.NetworkClient)\njava.net.UnknownHostException: kafka-1",
            "A node cannot resolve or reach a controller",
        ),
        (
            "java.lang.IllegalArgumentException: Error creating broker listeners from 'PLAINTEXT://:tcp://10.99.149.156:9092': No security protocol defined for listener PLAINTEXT://:TCP",
            "Kubernetes has put the address of a Service into the variable of a port",
        ),
        (
            "java.lang.IllegalArgumentException: requirement failed: There must be at least one advertised listener.\n\tat kafka.server.KafkaConfig.validateValues(KafkaConfig.scala:2305)",
            "The broker has no listener for clients",
        ),
        (
            "java.lang.IllegalArgumentException: requirement failed: The advertised.listeners config must not contain KRaft controller listeners from controller.listener.names",
            "must not have the controller's listener",
        ),
        (
            "org.apache.kafka.common.errors.SaslAuthenticationException: Cannot change principals during re-authentication from IAM.a: IAM.b",
            "as another principal",
        ),
        (
            '{"message":"[kafka] rdkafka: [thrd:ssl://10.7.53.125:9093/bootstrap]: ssl://10.7.53.125:9093/bootstrap: Disconnected (after 179123ms in state UP)"}',
            "A connection that was in use has ended",
        ),
        (
            'cimpl.KafkaException: KafkaError{code=_INVALID_ARG,val=-186,str="No provider for SASL mechanism GSSAPI: recompile librdkafka with libsasl2"}',
            "wants to log in with Kerberos (GSSAPI)",
        ),
        ("faust/aiokafka Exception: Controller node not found", "The cluster has no controller"),
    ],
)  # fmt: skip
def test_the_first_line_names_what_the_words_or_the_logger_show(text: str, heading: str) -> None:
    assert heading in said(text).partition(" [")[0]
    assert len(explained(text).causes) == 1


def test_a_summary_of_all_brokers_belongs_to_no_address() -> None:
    lines = (
        "%3|1|FAIL|rdkafka#p-1| [thrd:ssl://a.example:9093/bootstrap]: ssl://a.example:9093/bootstrap: Disconnected (after 9000ms in state UP)",
        "%3|1|ERROR|rdkafka#p-1| [thrd:ssl://b.example:9093/bootstrap]: 3/3 brokers are down",
    )

    assert [cause.faults for cause in explained("\n".join(lines)).causes] == [("closed",)]


@pytest.mark.parametrize(
    ("address", "fault"), [("k.example:80", "not-kafka"), ("pkc-1.eu.gcp.confluent.cloud:9092", "plaintext-to-tls")]
)
def test_a_port_and_a_cloud_decide_for_erlangs_client_too(address: str, fault: str) -> None:
    host, _, port = address.partition(":")
    text = f'[warn] :brod_client is terminating [{{{{:"{host}", {port}}}, {{{{{{:kpro_req, #Reference<0.1>, :api_versions, 0, false, []}}, :closed}}'

    assert [cause.faults for cause in explained(text).causes] == [(fault,)]


@pytest.mark.parametrize(
    ("text", "heading", "absent"),
    [
        (
            "org.apache.kafka.common.config.ConfigException: No resolvable bootstrap urls given in bootstrap.servers",
            "The name of the bootstrap server cannot be resolved",
            "kproxy run",
        ),
        (
            "org.apache.kafka.common.KafkaException: javax.security.auth.login.LoginException: No LoginModule found for software.amazon.msk.auth.iam.IAMLoginModule",
            "`aws-msk-iam-auth`, is not on the class path",
            "PlainLoginModule",
        ),
        (
            'File "/usr/lib/python3/site-packages/kafka/conn.py", line 440, in _wrap_ssl\n    self._ssl_context.load_verify_locations(\nFileNotFoundError: [Errno 2] No such file or directory',
            "`ssl_cafile`",
            "sasl.jaas.config",
        ),
        (
            'KafkaError{code=GROUP_AUTHORIZATION_FAILED,val=30,str="FindCoordinator response error: Group authorization failed."}',
            "The user lacks a right",
            "__consumer_offsets",
        ),
        (
            "org.apache.kafka.common.KafkaException: Failed to load SSL keystore /opt/ssl/client.jks of type JKS\nCaused by: java.nio.file.NoSuchFileException: /opt/ssl/client.jks",
            "does not exist where the program runs",
            "wrong password",
        ),
        (
            'KafkaError{code=_INVALID_ARG,val=-186,str="Java JAAS configuration is not supported, see https://github.com/confluentinc/librdkafka/wiki"}',
            "has no `sasl.jaas.config`",
            "trust store",
        ),
        (
            "org.apache.kafka.common.KafkaException: Socket server failed to bind to 0.0.0.0:9092: Address already in use.",
            "The port is in use on this machine",
            "listener.security.protocol.map",
        ),
        (
            "org.apache.kafka.common.errors.UnsupportedVersionException: The node does not support METADATA\nCaused by: org.apache.kafka.common.errors.UnsupportedEndpointTypeException: no broker",
            "The port is a controller's",
            "too old for the client",
        ),
    ],
)  # fmt: skip
def test_the_advice_of_the_family_is_left_out_where_the_mistake_is_known(text: str, heading: str, absent: str) -> None:
    assert heading in said(text).partition(" [")[0]
    assert absent not in said(text)


def test_a_coordinator_that_loads_is_not_one_that_is_missing() -> None:
    text = 'KafkaError{code=GROUP_LOAD_IN_PROGRESS,val=14,str="JoinGroup failed: Broker: Group coordinator load in progress"}'

    assert "still reads the offsets" in said(text).partition(" [")[0]
