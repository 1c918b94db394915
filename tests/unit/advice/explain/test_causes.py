"""The first cause of a log, and what follows from it."""

from __future__ import annotations

import io
import re

import pytest

from kproxy.advice.explain.causes import Cause
from kproxy.advice.explain.explanation import Explanation, explain
from kproxy.advice.explain.output import render
from kproxy.base.faults import Fault

RDKAFKA = "%3|1700000000.{n:03d}|FAIL|rdkafka#{client}| [thrd:{name}]: {name}: {text}"
UNRESOLVED = (
    "Failed to resolve 'kafka-{node}.prod.internal:9092': Name or service not known (after 1ms in state CONNECT)"
)


def explained(*lines: str) -> Explanation:
    return explain(io.BytesIO("\n".join(lines).encode()))


def fail(text: str, name: str, client: str = "producer-1", n: int = 0) -> str:
    return RDKAFKA.format(n=n, client=client, name=name, text=text)


def unresolved(node: int, client: str = "producer-1") -> str:
    return fail(UNRESOLVED.format(node=node), f"kafka-{node}.prod.internal:9092/{node}", client)


def only(explanation: Explanation) -> Cause:
    (cause,) = explanation.causes
    return cause


NAME = "sasl_plaintext://kafka.example:9092/bootstrap"
TRACE = (
    "Exception in thread main java.lang.IllegalStateException: no",
    "Caused by: java.net.ConnectException: Connection refused",
    "\tat java.base/sun.nio.ch.Net.pollConnect(Native Method)",
    "\tat org.apache.kafka.common.network.PlaintextTransportLayer.finishConnect(PlaintextTransportLayer.java:50)",
)
LOCAL = "Connect to ipv4#127.0.0.1:9092 failed: Connection refused (after 0ms in state CONNECT)"
TEXTS = {
    "a refused login explains the disconnects": (
        [
            fail("SASL authentication error: Authentication failed: Invalid username or password", NAME),
            fail("Disconnected: connection closed by peer: receive 0 after POLLIN", NAME),
            fail("2/2 brokers are down", NAME),
        ],
        [Fault.CREDENTIALS_REFUSED],
    ),
    "an expired record's age is no port": (
        [
            "WARN [Producer clientId=p] Connection to node 1 (localhost/127.0.0.1:33129) could not be established. Node may not be available.",
            "org.apache.kafka.common.errors.TimeoutException: Expiring 1 record(s) for orders-0:5026 ms has passed since batch creation.",
        ],
        [Fault.LOOPBACK_ADVERTISED],
    ),
    "a broker that has answered excludes the client's protocol": (
        [
            "[info]: Discovered cluster metadata; nodes: b-1.example:9092 (node_id=1)",
            "[error]: Could not connect to broker b-1.example:9092 (node_id=1): Connection error EOFError: EOFError",
        ],
        [Fault.CLOSED],
    ),
    "the reasons below an error of a token server are about that server": (
        [
            "KafkaException: The OAuth validator configuration encountered an error when initializing the VerificationKeyResolver",
            "Caused by: java.net.ConnectException: Connection refused",
        ],
        [Fault.CREDENTIALS_UNREADABLE],
    ),
    "two clients with two causes": (
        [unresolved(1), fail(LOCAL.replace("127.0.0.1", "10.1.1.1"), "b.example:9092/bootstrap", "consumer-2")],
        [Fault.NAME_NOT_RESOLVED, Fault.PORT_CLOSED],
    ),
    "the frames of a trace make its words Kafka's": (TRACE, [Fault.PORT_CLOSED]),
    "a trace without such frames may be Kafka's": (TRACE[:3], [Fault.PORT_CLOSED]),
    "another program's exception after a line of Kafka's": (
        [
            "INFO [Consumer clientId=c, groupId=g] Subscribed to topic(s): orders (org.apache.kafka.clients.consumer)",
            "org.postgresql.util.PSQLException: The connection attempt failed.",
            "\tat org.postgresql.core.v3.ConnectionFactoryImpl.openConnectionImpl(ConnectionFactoryImpl.java:331)",
            "Caused by: java.net.ConnectException: Connection refused",
        ],
        [],
    ),
    "localhost is wrong as an advertised address": ([fail(LOCAL, "localhost:9092/1")], [Fault.LOOPBACK_ADVERTISED]),
    "localhost is not wrong as a bootstrap server": ([fail(LOCAL, "localhost:9092/bootstrap")], [Fault.PORT_CLOSED]),
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_causes_of_a_text(name: str) -> None:
    lines, faults = TEXTS[name]
    assert [cause.faults for cause in explained(*lines).causes] == [(fault,) for fault in faults]


def test_the_loud_lines_follow_from_the_first_cause() -> None:
    loud = 'ERROR delivery failed: KafkaError{code=_MSG_TIMED_OUT,val=-192,str="Local: Message timed out"}'
    cause = only(explained("starting", unresolved(1), *[loud] * 500, unresolved(2), "bye"))

    assert cause.faults == (Fault.NAME_NOT_RESOLVED,)
    assert cause.first == 2
    assert cause.addresses() == ["kafka-1.prod.internal:9092", "kafka-2.prod.internal:9092"]
    (follower,) = cause.consequences
    assert (follower.text, follower.count, follower.first, follower.last) == ("Local: Message timed out", 500, 3, 502)


def test_javas_timeout_follows_from_the_name_even_if_first() -> None:
    timeout = (
        "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: listTopics"
    )
    warning = (
        "[2026-01-02 03:04:05,678] WARN [AdminClient clientId=a] Error connecting to node kafka-1.prod.internal:9092 "
        "(id: 1 rack: null) (org.apache.kafka.clients.NetworkClient)"
    )
    cause = only(
        explained(timeout, warning, "java.net.UnknownHostException: kafka-1.prod.internal", "\tat java.net.InetAddress")
    )

    assert cause.faults == (Fault.NAME_NOT_RESOLVED,)
    assert [one.text for one in cause.consequences] == ["Timed out waiting for a node assignment"]


def test_a_timeout_alone_fits_several_causes() -> None:
    explanation = explained("org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment.")

    assert {Fault.NAME_NOT_RESOLVED, Fault.PORT_CLOSED, Fault.FILTERED} <= set(only(explanation).faults)
    text = render(explanation)
    assert re.match(r"error: The client cannot reach or use a broker, for one of \d+ reasons\n", text)
    assert text.count("Check:") == len(only(explanation).faults)


def test_the_mechanism_is_named() -> None:
    line = "[AdminClient clientId=a] Connection to node -1 (b.example/10.0.0.1:9092) failed authentication due to: Client SASL mechanism 'SCRAM-SHA-256' not enabled in the server, enabled mechanisms are [PLAIN]"

    assert "has not enabled the client's SASL mechanism SCRAM-SHA-256." in " ".join(render(explained(line)).split())


def test_the_bootstrap_server_of_the_configuration_is_filled_in() -> None:
    explanation = explained(
        "ProducerConfig values: ", "\tbootstrap.servers = [lb.example:31090, other:1]", unresolved(1)
    )

    assert (explanation.server, explanation.server_line) == ("lb.example:31090", 2)
    assert explanation.doctor_command == "kproxy doctor lb.example:31090"
    assert explanation.run_command(only(explanation)) == "kproxy run -b lb.example:31090"
    assert "lb.example:31090 is assumed to be your bootstrap server (line 2)" in " ".join(render(explanation).split())


def test_the_commands_have_the_addresses_of_the_case() -> None:
    text = " ".join(render(explained("bootstrap.servers=lb.example:31090", unresolved(1))).split())

    assert "`kcat -b lb.example:31090 -L` shows" in text
    assert "`getent hosts kafka-1.prod.internal` on" in text


def test_a_host_is_not_named_twice() -> None:
    lines = (
        "WARN [AdminClient clientId=a] Error connecting to node kafka-1.x.example:9092 (id: 1 rack: null)",
        "java.net.UnknownHostException: kafka-1.x.example",
        "\tat org.apache.kafka.clients.NetworkClient",
    )

    assert only(explained(*lines)).addresses() == ["kafka-1.x.example:9092"]
    assert "kafka-1.x.example:9092 is the advertised address of broker 1:" in " ".join(
        render(explained(*lines)).split()
    )


def test_an_interrupted_last_attempt_follows_from_earlier_ones() -> None:
    connection = "kafka.net.connection: <KafkaConnection node_id=bootstrap-0 host=[127.0.0.1:9092<-50056]>: {}"
    cause = only(
        explained(
            *[connection.format("Connection lost: KafkaConnectionError: socket disconnected")] * 3,
            connection.format("Request timed out after 228 ms. Closing connection."),
            "kafka.errors.KafkaTimeoutError: KafkaTimeoutError: Unable to bootstrap from 127.0.0.1:9092",
        )
    )

    assert Fault.CREDENTIALS_REFUSED in cause.faults
    assert len(cause.consequences) == 2


def test_a_broker_s_log_has_the_causes_of_many_clients() -> None:
    socket_server = (
        "[2026-01-02 03:04:05] INFO [SocketServer listenerType=BROKER, nodeId=1] {} (kafka.network.Selector)"
    )
    explanation = explained(
        socket_server.format("Failed authentication with /10.0.0.1 (channelId=a) (SSL handshake failed)"),
        socket_server.format("Failed authentication with /10.0.0.2 (channelId=b) (Authentication failed: no)"),
        "[2026-01-02 03:04:05] WARN [SocketServer listenerType=BROKER, nodeId=1] Unexpected error from /10.0.0.3; closing",
        "org.apache.kafka.common.network.InvalidReceiveException: Invalid receive (size = 1195725856 larger than 1)",
    )

    assert [cause.faults for cause in explanation.causes[:2]] == [(Fault.CREDENTIALS_REFUSED,), (Fault.NOT_KAFKA,)]
    assert Fault.CERTIFICATE_UNTRUSTED in explanation.causes[2].faults


def test_without_a_bootstrap_server_the_line_says_so() -> None:
    explanation = explained(unresolved(1))

    assert explanation.doctor_command == "kproxy doctor HOST:PORT"
    assert "the text does not name it" in render(explanation)


def test_kproxy_s_own_log() -> None:
    cause = only(
        explained(
            "2026-01-02 03:04:05 WARNING broker 2: cannot be reached: the name 'kafka-2.x.internal' cannot be resolved here (kproxy)"
        )
    )

    assert cause.faults == (Fault.NAME_NOT_RESOLVED,)
    assert "Use `--map`" in render(explained("kproxy: the name 'kafka-2.x.internal' cannot be resolved here"))


ANSWER = "[info]: Discovered cluster metadata; nodes: b-1.example:9092 (node_id=1)"
ENDED = "[error]: Could not connect to broker b-1.example:9092 (node_id=1): Connection error EOFError: EOFError"


@pytest.mark.parametrize(
    "lines",
    [
        (ENDED, ANSWER),
        ("INFO [Producer clientId=p] Cluster ID: abcdefghijklmnopqrstuv", f"[Consumer clientId=c] kafka: {ENDED}"),
    ],
)
def test_only_an_earlier_answer_to_the_same_client_excludes_its_protocol(lines: tuple[str, ...]) -> None:
    assert Fault.PLAINTEXT_TO_TLS in only(explained(*lines)).faults
    assert only(explained(ANSWER, ENDED)).faults == (Fault.CLOSED,)


def test_an_advertised_address_is_named_if_a_broker_has_answered() -> None:
    text = "[Producer clientId=p] Cluster ID: abcdefghijklmnopqrstuv\nTimeoutException: Expiring 3 record(s) for orders-0:30000 ms has passed since batch creation"

    assert "A broker has answered the client, but an advertised address" in render(explained(text))


def test_a_timeout_without_an_address_follows_from_a_later_reason_with_one() -> None:
    timeout = "kafka: Meta data fetch error: OperationTimedOut (Local: Timed out)"
    cause = only(explained(timeout, fail("Disconnected while requesting ApiVersion", NAME)))

    assert cause.faults[0] is Fault.PLAINTEXT_TO_TLS
    assert [match.first for match in cause.consequences] == [1]
