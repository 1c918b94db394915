"""Whatever is pasted: memory and time are bounded, and nothing of the text but names and numbers is repeated."""

from __future__ import annotations

import io
import json
import tracemalloc
from collections.abc import Sequence

import pytest

from kproxy.advice.explain import search
from kproxy.advice.explain.explanation import Explanation, explain
from kproxy.advice.explain.linereader import LONGEST_LINE, LineReader
from kproxy.advice.explain.matches import RecordMatches, matches_of
from kproxy.advice.explain.output import render
from kproxy.base.faults import Fault

HIT = (
    b"%3|1|FAIL|rdkafka#producer-1| [thrd:kafka-1.x:9092/1]: kafka-1.x:9092/1: Failed to resolve 'kafka-1.x:9092': no\n"
)


def everything(explanation: Explanation) -> str:
    return render(explanation) + json.dumps(explanation.as_json(), ensure_ascii=False)


class Endless(io.RawIOBase):
    """Gives the same bytes for ever, and counts them."""

    def __init__(self, data: bytes) -> None:
        self.data, self.given = data, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        count = min(len(view), len(self.data))
        view[:count] = self.data[:count]
        self.given += count
        return count


def test_an_endless_stream_is_read_to_the_limit_and_marked() -> None:
    endless = Endless(HIT * 1000)
    explanation = explain(io.BufferedReader(endless), max_bytes=1_000_000)

    assert explanation.bytes_read == 1_000_000
    assert not explanation.complete
    assert "Only the first 1000000 bytes were read." in render(explanation)
    assert endless.given < 3_000_000


def test_memory_does_not_grow_with_the_text() -> None:
    varied = b"".join(HIT.replace(b"kafka-1", b"kafka-%d" % number) + b"noise\n" * 200 for number in range(700))
    explain(io.BytesIO(HIT))
    tracemalloc.start()
    try:
        explain(io.BufferedReader(Endless(varied)), max_bytes=1_500_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 8_000_000


@pytest.mark.parametrize(
    "data",
    [
        b"a" * 3_000_000,
        b"a:" * 1_500_000,
        b"kafka bootstrap.servers=" + b"a," * 30_000,
        b"kafka Failed to resolve '" * 2_600,
        b"kafka Invalid receive (size = " + b"1" * 60_000,
        b"Failed to resolve 'kafka " + b"1.1.1." * 10_000 + b":",
        b"kafka error code " + b"a.-" * 20_000,
        b"kafka topics: [" + b"topic " * 10_000,
        b"kafka NOT_LEADER" + b"_A" * 30_000,
        b"kcat " + b"-b " * 20_000,
        b"kcat " + b'" -' * 20_000,
        b"nc: kafka " + b"connect to a " * 5_000 + b"failed: Connection refused",
        b"kafka Connection refused" + b" [1.1.1.1] 1" * 5_000,
        b"kafka brokers: [" * 4_000,
        b"kafka\n" + b"  brokers: [\n" * 20_000,
        b"kafka brokers:\n" + b"  - a:9092\n" * 100_000,
        b"[kafkajs] kafkajs: Connection timeout\n" + b'    broker: "' * 5_000,
        b"kafkajs: Connection timeout\n" * 20_000,
        b"kubectl " * 20_000 + b"Connection refused",
        b"kafka port-forward " * 5_000 + b"Connection refused",
        b"kafka port-forward" + b" 9092" * 10_000 + b"x",
        b"kafka.TCP(" * 10_000 + b"DialLeader(" * 10_000 + b"Connection refused",
        b"rdkafka [thrd:" + b"a" * 60_000 + b"/bootstrap]: 1/1 brokers are down",
        b"rdkafka 1/1 brokers are down /bootstrap]" + b"[thrd:" * 20_000,
        b"Failed to resolve '" + b"[" * 60_000,
        b"\x1b[" * 1_000_000 + b"kafka",
        b"kafka UnknownHostException: " + b"a-." * 20_000,
        b"\n" * 1_000_000,
        b"connection refused\n" * 200_000,
        b"kafka Failed to resolve '" + b"a://" * 15_000,
        b"kafka: dial tcp: lookup " + b"kafka-" * 10_000 + b": no such host",
        b"kafka: dial tcp: lookup " + b"a-1." * 10_000 + b": no such host",
        b"kafka connection refused " + b"tcp 1.1.1.1->" * 5_000,
        b"kafka [6] " + b"Not Leader " * 6_000,
        b"kafka no such host" + b" on 1.1.1.1:53" * 4_000,
        b"kafka connection refused " + b"::1:" * 15_000,
        b" at org.apache.kafka\n" * 200_000,
    ],
    ids=lambda data: repr(data[:24]),
)
def test_lines_made_to_be_slow_are_not(data: bytes) -> None:
    """Anything but linear time would exceed the time limit of tests by far."""
    explanation = explain(io.BytesIO(data))

    assert explanation.bytes_read == len(data)


def test_only_the_first_lines_without_a_sign_of_kafka_are_kept() -> None:
    """So a log of another program costs little, however often it says that a connection was refused."""
    lines = b"".join(b"%d connection refused\n" % number for number in range(5000))
    (cause,) = explain(io.BytesIO(lines)).causes

    assert sum(match.count for match in cause.matches) == 2000


def test_a_message_of_kafka_after_them_counts() -> None:
    explanation = explain(io.BytesIO(b"connection refused\n" * 5000 + HIT))

    assert not explanation.conditional
    assert [cause.faults for cause in explanation.causes] == [(Fault.NAME_NOT_RESOLVED,)]


def test_a_long_line_is_cut_and_the_next_ones_are_read() -> None:
    explanation = explain(io.BytesIO(b"x" * 10 * LONGEST_LINE + b"\n" + HIT))

    assert explanation.causes[0].faults == (Fault.NAME_NOT_RESOLVED,)
    assert explanation.causes[0].first == 2


@pytest.mark.parametrize("chunk", [1, 7, 4096])
def test_any_chunking_gives_the_same_lines(chunk: int) -> None:
    class Chunked(io.BytesIO):
        def read1(self, size: int | None = -1) -> bytes:
            return self.read(chunk)

    data = b"first\r\n\x1b[31msecond\x1b[0m\n\nlast"
    lines = [line for block in LineReader(Chunked(data)).line_blocks() for line in block]

    assert lines == [b"first", b"second", b"", b"last"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-8", "utf-8-sig"])
def test_what_powershell_writes(encoding: str) -> None:
    bom = b"\xff\xfe" if encoding == "utf-16-le" else b""

    assert explain(io.BytesIO(bom + HIT.decode().encode(encoding))).causes


def test_binary_is_not_known() -> None:
    assert explain(io.BytesIO(bytes(range(256)) * 1000)).causes == ()
    assert explain(io.BytesIO(b"")).causes == ()


def test_invalid_utf_8_and_control_characters_are_not_repeated() -> None:
    line = b"\xff\xfe\x00rdkafka \x1b[2J\x07Failed to resolve 'kafka-1.x\xe2\x80\xae:9092': \x9b31m no \xff\n"
    text = everything(explain(io.BytesIO(b"x" + line)))

    assert all(character.isprintable() or character == "\n" for character in text)
    assert "\u202e" not in text


@pytest.mark.parametrize(
    "line",
    [
        'sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="SECRET-9";',
        "kafka.errors: sasl_plain_password='SECRET-9' Failed to authenticate via SASL",
        "rdkafka SASL authentication error: Authentication failed token=SECRET-9 eyJhbGciOi.SECRET-9.x",
        "kafka Failed to resolve 'user:SECRET-9@kafka-1.x:9092': Name or service not known",
        "kafka bootstrap.servers=user:SECRET-9@kafka:9092 Failed to resolve 'kafka:9092': x",
        "org.apache.kafka.common.config.ConfigException: Invalid value SECRET-9 for configuration ssl.key.password",
        "kafka https://me:SECRET-9@schema:8081/ KafkaTimeoutError: Unable to bootstrap from SECRET-9",
    ],
)
def test_secrets_are_not_repeated(line: str) -> None:
    assert "SECRET" not in everything(explain(io.BytesIO(line.encode())))


def test_an_address_that_a_shell_would_run_is_not_taken() -> None:
    explanation = explain(io.BytesIO(b"kafka bootstrap.servers=$(reboot):9092 Failed to resolve 'x;reboot:9092': no\n"))

    assert "$(" not in everything(explanation)
    assert ";reboot" not in everything(explanation)


def test_many_different_findings_are_counted_in_bounded_room() -> None:
    lines = b"".join(HIT.replace(b"kafka-1", b"kafka-%d" % number) for number in range(3000))
    explanation = explain(io.BytesIO(lines))
    (cause,) = explanation.causes

    assert sum(finding.count for finding in cause.matches) == 3000
    assert len(cause.matches) <= 501
    assert len(render(explanation)) < 4000


def test_of_a_kind_only_some_hundred_records_are_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    examined: list[int] = []

    def counted(record: Sequence[bytes], hits: Sequence[int], takes_conditional: bool) -> RecordMatches:
        examined.append(len(record))
        return matches_of(record, hits, takes_conditional)

    monkeypatch.setattr(search, "matches_of", counted)
    lines = b"".join(HIT.replace(b"kafka-1", b"kafka-%d" % number) for number in range(3000))
    explanation = explain(io.BytesIO(lines + b"kafka: dial tcp 10.0.0.1:9092: connect: connection refused\n"))

    assert len(examined) <= 450  # a number in a name may be one of the words
    assert [(cause.faults, sum(match.count for match in cause.matches)) for cause in explanation.causes] == [
        ((Fault.NAME_NOT_RESOLVED,), 3000),
        ((Fault.PORT_CLOSED,), 1),
    ]
    assert "kafka-2999" not in everything(explanation)


@pytest.mark.parametrize("spoiled", ["\x07", "\x1b", "\x9b31m", "$(id)", "`id`", ";id", "\u202e"])
def test_what_is_no_address_in_a_list_is_not_shown(spoiled: str) -> None:
    """Neither the address that the client has asked, nor a broker's."""
    head = "Metadata for all topics (from broker -1: 34.1.2.3{}:9092/bootstrap):\n 1 brokers:\n"
    broker = "  broker 1 at k-0{}.k.kafka.svc:9092\n"
    assert "k-0.k.kafka.svc" in everything(explain(io.BytesIO((head + broker).replace("{}", "").encode())))
    for text in (head.replace("{}", "") + broker, head + broker.replace("{}", "")):
        assert spoiled not in everything(explain(io.BytesIO(text.replace("{}", spoiled).encode())))
