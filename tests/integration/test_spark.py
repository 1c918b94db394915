"""Real Spark, its driver and two executors, on three brokers that nobody can resolve and where kproxy has to log in."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import venv
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kproxy.base.process import start_time
from kproxy.dev.devcluster import DevCluster
from kproxy.spark import attach, detach, plugin
from kproxy.spark.configuration import build_host_config
from kproxy.spark.host import HostConfig, Lease, join, query_proxy, runtime_path
from kproxy.spark.logtail import read_position
from kproxy.spark.tasks import make_join_task
from tests.harness.clients.spark import (
    PASSWORD,
    PLAIN,
    TWO_EXECUTORS,
    configuration,
    connector,
    environment,
    executor_pids,
    needs_spark,
    proxy_of,
    session,
    settings,
    spark_home,
)
from tests.harness.process import wait_until
from tests.harness.topics import create_topic, note_failures, produce, read_topic, unique

pytestmark = [
    pytest.mark.integration,
    needs_spark,
    pytest.mark.timeout(600),
    # pyspark leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

EXAMPLES = Path(__file__).parents[2] / "examples" / "spark"
PARTITIONS, KEYS, RECORDS = 6, 7, 200_000
START_MS, HOUR_MS, STEP_MS = 1_500_001_200_000, 3_600_000, 100
# The log of the driver's JVM goes to a file.
LOG4J = """rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c: %m%n
"""
# In seconds; a JVM that starts on a busy machine takes some.
PATIENCE, GONE = 120.0, 30.0


@dataclass(frozen=True)
class Site:
    """The application that most tests share."""

    spark: Any
    home: Path
    events: Path
    log: Path
    listen: str
    bootstrap: str
    config: dict[str, Any]

    @property
    def told(self) -> HostConfig:
        return build_host_config(self.config)

    @property
    def kafka(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.bootstrap}


@pytest.fixture(scope="module")
def site(brokers: DevCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A session with the plugin, attached. At its end nothing of kproxy is left."""
    home = spark_home(tmp_path_factory.mktemp("site"))
    log = home / "driver.log"
    (home / "log4j2.properties").write_text(LOG4J.format(log=log))
    events = tmp_path_factory.mktemp("events")
    conf = settings(
        spark_master=TWO_EXECUTORS, spark_eventLog_enabled="true", spark_eventLog_compress="false",
        spark_eventLog_dir=events.as_uri(), spark_eventLog_rolling_enabled="false",
    )  # fmt: skip
    conf["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={home}/log4j2.properties"
    config = configuration(brokers)
    with session(home, conf | plugin(jars=[connector()])) as spark:
        bootstrap = attach(spark, config)
        assert bootstrap == config["listen"]
        # `attach` did not return before the executors were there.
        assert users(bootstrap) >= {os.getpid(), *executor_pids(home).values()}
        assert len(executor_pids(home)) == 2
        yield Site(spark, home, events, log, bootstrap, bootstrap, config)
        pids = {proxy_of(bootstrap).keeper, proxy_of(bootstrap).kproxy}
    gone(bootstrap, pids)


def gone(listen: str, pids: set[int | None]) -> None:
    """Within the time that it may take, no process of kproxy is left, and no file."""
    left = wait_until(lambda: not any(start_time(pid) for pid in pids if pid), "kproxy has ended", GONE)
    assert left
    assert query_proxy(listen) is None
    assert not list(Path(f"/tmp/kproxy-spark-{os.getuid()}").glob(f"{listen}.*"))


# Records, each a function of its number.


def send(bootstrap: str, topic: str, numbers: range) -> None:
    """Number n has the key n mod KEYS and is as old as its number says."""
    failed: list[Any] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20})
    report = note_failures(failed)
    for n in numbers:
        while True:
            try:
                producer.produce(
                    topic, str(n), f"key-{n % KEYS}", n % PARTITIONS,
                    timestamp=START_MS + n * STEP_MS, on_delivery=report,
                )  # fmt: skip
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0
    assert not failed, failed[:3]


def expected(numbers: range) -> dict[tuple[int, str], tuple[int, int, int]]:
    """Hour (ms since the epoch) and key → how many, the sum of numbers, the sum of the CRCs of their texts."""
    found: dict[tuple[int, str], tuple[int, int, int]] = {}
    for n in numbers:
        at = START_MS + n * STEP_MS
        place = at - at % HOUR_MS, f"key-{n % KEYS}"
        count, total, crc = found.get(place, (0, 0, 0))
        found[place] = count + 1, total + n, crc + zlib.crc32(b"%d" % n)
    return found


def aggregated(records: Any) -> Any:
    """The same by Spark, as lines for Kafka."""
    from pyspark.sql.functions import col, count, crc32, lit, struct, to_json, window
    from pyspark.sql.functions import sum as total

    groups = records.groupBy(window("timestamp", "1 hour").alias("hour"), "key")
    value = col("value").cast("string")
    sums = groups.agg(
        count(lit(1)).alias("n"), total(value.cast("long")).alias("sum"), total(crc32(value)).alias("crc")
    )
    start = (col("hour.start").cast("long") * 1000).alias("hour")
    return sums.select("key", to_json(struct(start, "n", "sum", "crc")).alias("value"))


def written(bootstrap: str, topic: str) -> dict[tuple[int, str], tuple[int, int, int]]:
    """What stands in the topic, read by another client; of several lines of one group the one with the most records."""
    found: dict[tuple[int, str], tuple[int, int, int]] = {}
    for message in read_topic(bootstrap, topic):
        key, line = message.key().decode(), json.loads(message.value())
        place = line["hour"], key
        found[place] = max(found.get(place, (0, 0, 0)), (line["n"], line["sum"], line["crc"]))
    return found


def test_without_kproxy_the_job_fails(site: Site, brokers: DevCluster, figures: list[str]) -> None:
    from py4j.protocol import Py4JJavaError

    topic = create_topic(brokers.direct_bootstrap)
    login = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"}
    jaas = {"kafka.sasl.jaas.config": f'{PLAIN} username="spark" password="{PASSWORD}";'}
    patience = {"kafka.default.api.timeout.ms": "4000", "kafka.request.timeout.ms": "3000", "subscribe": topic}
    direct = {"kafka.bootstrap.servers": brokers.bootstrap, **login, **jaas, **patience}
    with pytest.raises(Py4JJavaError) as failed:
        site.spark.read.format("kafka").options(**direct).load().count()
    # Which of the driver's calls is the first one differs.
    said = "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: "
    [line] = {line for line in str(failed.value).splitlines() if line.startswith(f"Caused by: {said}")}
    figures.append(f"Spark without kproxy: {line.removeprefix('Caused by: ')}")


def test_batch_with_a_pattern(site: Site, brokers: DevCluster) -> None:
    prefix = unique("batch")
    sent = Counter({f"{prefix}-{name}": count for name, count in (("a", 3000), ("b", 7000))})
    for topic, count in sent.items():
        produce(brokers.direct_bootstrap, topic, (b"%d" % n for n in range(count)))
    read = site.spark.read.format("kafka").options(**site.kafka, subscribePattern=f"{prefix}-.*").load()
    rows = read.selectExpr("topic", "cast(cast(value as string) as long) as n").groupBy("topic")
    got = {row["topic"]: (row["count(1)"], row["sum(n)"]) for row in rows.agg({"*": "count", "n": "sum"}).collect()}
    assert got == {topic: (count, sum(range(count))) for topic, count in sent.items()}


def test_streaming_through_what_happens(site: Site, brokers: DevCluster, tmp_path: Path) -> None:
    """While records flow kproxy, an executor and a keeper are killed, a broker restarted: all are counted, once."""
    direct = brokers.direct_bootstrap
    source = create_topic(direct, PARTITIONS, retention_ms="-1")
    target = create_topic(direct)
    options = {**site.kafka, "subscribe": source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "50000"}
    records = site.spark.readStream.format("kafka").options(**options).load()
    checkpoint = tmp_path / "checkpoint"
    to = {**site.kafka, "topic": target, "checkpointLocation": str(checkpoint)}
    query = aggregated(records).writeStream.format("kafka").options(**to).outputMode("update").start()
    happens: list[Callable[[], None]] = [
        lambda: None,
        lambda: kproxy_is_killed(site),
        lambda: executor_is_killed(site),
        lambda: keeper_is_killed(site),
        lambda: brokers.restart(2),
    ]
    step = RECORDS // len(happens)
    try:
        for turn, fault in enumerate(happens):
            with ThreadPoolExecutor(1) as beside:
                sent = beside.submit(send, direct, source, range(turn * step, (turn + 1) * step))
                wait_until(lambda: query.status["isTriggerActive"], "records flow")
                fault()
                sent.result()
            query.processAllAvailable()
    finally:
        query.stop()
    assert written(direct, target) == expected(range(RECORDS))
    counts = {str(p): len(range(p, RECORDS, PARTITIONS)) for p in range(PARTITIONS)}
    assert last_offsets(checkpoint) == {source: counts}


def last_offsets(checkpoint: Path) -> dict[str, dict[str, int]]:
    """Topic and partition → where the last batch that was done ended."""
    last = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
    offsets = (checkpoint / "offsets" / str(last)).read_text().splitlines()[-1]
    found: dict[str, dict[str, int]] = json.loads(offsets)
    return found


def kproxy_is_killed(site: Site) -> int:
    before = proxy_of(site.listen)
    assert before.kproxy is not None
    os.kill(before.kproxy, signal.SIGKILL)
    wait_until(lambda: proxy_of(site.listen).kproxy not in (None, before.kproxy), "kproxy is back")
    wait_until(lambda: proxy_of(site.listen).ready(), "kproxy is ready again")
    assert proxy_of(site.listen).keeper == before.keeper
    return before.kproxy


def executor_is_killed(site: Site) -> None:
    """The one that comes for it has kproxy before any task: its own log says in which order things were."""
    before = executor_pids(site.home)
    name, pid = max(before.items())
    os.kill(pid, signal.SIGKILL)
    new = wait_until(lambda: executor_pids(site.home).keys() - before.keys(), "another executor", PATIENCE).pop()

    def has_task() -> str:
        site.spark.range(100).repartition(8).count()  # if there are no records left
        text = "".join(log.read_text() for log in (site.home / "work").glob(f"app-*/{new}/stderr"))
        return text if "Got assigned task" in text else ""

    text = wait_until(has_task, "it has a task", PATIENCE)
    assert 0 < text.index(f"kproxy is ready for this executor: {site.listen}") < text.index("Got assigned task")
    assert executor_pids(site.home)[new] in users(site.listen)
    assert pid not in users(site.listen), name


def users(listen: str) -> set[int]:
    """The processes that use the proxy."""
    return {lease["pid"] for lease in proxy_of(listen).leases}


def keeper_is_killed(site: Site) -> None:
    """Whoever uses it starts another."""
    before = proxy_of(site.listen)
    os.kill(before.keeper, signal.SIGKILL)
    wait_until(
        lambda: (now := query_proxy(site.listen)) and now.keeper != before.keeper and now.ready() and now, "another"
    )

    def joined() -> bool:
        return users(site.listen) >= {*executor_pids(site.home).values()}

    wait_until(joined, "the executors have joined it", PATIENCE)


def test_attaching_again_is_the_same(site: Site, brokers: DevCluster) -> None:
    from kproxy.base.errors import ConfigError

    with pytest.raises(ConfigError, match="this application is attached with another configuration"):
        attach(site.spark, configuration(brokers))
    assert attach(site.spark, site.config) == site.bootstrap
    # The executors may not even have noticed.
    detach(site.spark)
    assert attach(site.spark, site.config) == site.bootstrap
    assert users(site.bootstrap) >= {os.getpid(), *executor_pids(site.home).values()}


def test_a_log_that_is_emptied_is_read_on(site: Site) -> None:
    """Both executors read it. What is said after it was emptied stands before the place where they had read until then,
    and reaches the driver once."""
    with subprocess.Popen(["sleep", "600"]) as other:
        try:
            kept = join(site.told, Lease.of(other.pid))
            detach(site.spark)
            wait_until(lambda: users(site.listen) == {other.pid}, "the application has left")
            log = runtime_path(site.listen, "log")
            os.truncate(log, 4 << 20)  # as long as it may be
            attach(site.spark, site.config)
            said(site, kproxy_is_killed(site))
            wait_until(lambda: read_position(log)[1] < 1 << 20, "it is emptied")
            said(site, kproxy_is_killed(site))
            assert proxy_of(site.listen).keeper == kept.keeper
        finally:
            other.kill()


def said(site: Site, pid: int) -> None:
    """That this kproxy has ended stands in the driver's log, once."""
    end = f"kproxy (process {pid}) was ended by a signal"
    wait_until(lambda: end in site.log.read_text(), "its end is said")
    assert site.log.read_text().count(end) == 1


def test_an_executor_without_kproxy_says_so(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    python = str(tmp_path / "bare" / "bin" / "python")
    context = site.spark.sparkContext
    monkeypatch.setattr(context, "pythonExec", python)
    [(_, problem, _)] = context.parallelize([0], 1).mapPartitions(make_join_task("", 1.0)).collect()
    said = (
        f"{socket.gethostname()}: {python}, the Python of Spark's executors, has no kproxy: No module named 'kproxy'; "
    )
    assert problem.startswith(said)
    assert "set spark.pyspark.python" in problem


def test_secrets_stand_nowhere(site: Site) -> None:
    """Not in Spark's settings, event log and logs, not in a command line, not in a file of kproxy's."""
    site.spark.range(100).count()
    conf = str(site.spark.sparkContext.getConf().getAll())
    events = "".join(path.read_text() for path in site.events.rglob("*") if path.is_file())
    logs = "".join(path.read_text(errors="replace") for path in (site.home / "work").rglob("std*"))
    kept = Path(f"/tmp/kproxy-spark-{os.getuid()}").glob(f"{site.listen}.l*")
    now = proxy_of(site.listen)
    pids = [*executor_pids(site.home).values(), now.keeper, now.kproxy, site.spark.sparkContext._gateway.proc.pid]
    commands = "".join(Path(f"/proc/{pid}/{what}").read_text() for pid in pids for what in ("cmdline", "environ"))
    for text in (conf, events, logs, commands, *(path.read_text() for path in kept)):
        assert PASSWORD not in text
    assert "SparkListenerTaskEnd" in events
    assert "kproxy is ready for this executor" in logs


# The examples, as they are


def submit(home: Path, output: Path, conf: dict[str, str], *words: str) -> subprocess.Popen[bytes]:
    options = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    command = [str(home / "bin" / "spark-submit"), *options, *words]
    with output.open("wb") as to:
        return subprocess.Popen(command, env=environment(home), cwd=home, stdout=to, stderr=subprocess.STDOUT)


@pytest.mark.matrix
def test_two_applications_share_a_host(brokers: DevCluster, tmp_path: Path) -> None:
    """One streams and has no plugin, the other is given settings and sends the file, which is not where they say, as in
    cluster mode; that one ends, and the first is undisturbed."""
    direct = brokers.direct_bootstrap
    source, counts, sums = (create_topic(direct) for _ in range(3))
    config = configuration(brokers)
    file = tmp_path / "kproxy.yaml"
    file.write_text(json.dumps(config))
    home, output, checkpoint = spark_home(tmp_path), tmp_path / "streaming", str(tmp_path / "checkpoint")
    produce(direct, source, [b"one", b"two"])
    executor = {"spark_master": "local-cluster[1,1,512]", "spark_executor_memory": "512m"}
    streaming = submit(
        home, output, settings(**executor, spark_jars=connector()),
        str(EXAMPLES / "streaming.py"), str(file), source, counts, checkpoint,
    )  # fmt: skip

    def count(expected: int) -> bool:
        assert streaming.poll() is None, output.read_text()[-3000:]
        return counted(direct, counts) == expected

    try:
        wait_until(lambda: count(2), "the first two are counted", PATIENCE)
        before = proxy_of(config["listen"])
        with_plugin = settings(spark_master="local[1]") | plugin(Path("/not/here", file.name), [connector()])
        batch = submit(
            home, tmp_path / "batch", with_plugin,
            "--files", str(file), str(EXAMPLES / "batch.py"), str(file), source, sums,
        )  # fmt: skip
        assert batch.wait(PATIENCE) == 0, (tmp_path / "batch").read_text()[-3000:]
        [line] = [json.loads(message.value() or b"") for message in read_topic(direct, sums)]
        assert line == {"records": 2, "bytes": 6}
        wait_until(lambda: proxy_of(config["listen"]).leases == before.leases, "it has left")
        # An executor that comes later is found by the driver.
        os.kill(executor_pids(home)["0"], signal.SIGKILL)
        wait_until(
            lambda: executor_pids(home).get("1") in users(config["listen"]), "its replacement has joined", PATIENCE
        )
        produce(direct, source, [b"three"])
        wait_until(lambda: count(3), "another is counted", PATIENCE)
        after = proxy_of(config["listen"])
        assert (after.keeper, after.kproxy) == (before.keeper, before.kproxy)
    finally:
        streaming.terminate()
        streaming.wait(60)
    gone(config["listen"], {before.keeper, before.kproxy})
    assert not any(PASSWORD in (tmp_path / name).read_text() for name in ("streaming", "batch"))


def counted(bootstrap: str, topic: str) -> int:
    """The records that the streaming example has counted until now."""
    most = Counter[tuple[bytes, str]]()
    for message in read_topic(bootstrap, topic):
        line = json.loads(message.value())
        place = message.key(), line["minute"]
        most[place] = max(most[place], line["records"])
    return most.total()
