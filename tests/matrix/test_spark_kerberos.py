"""Spark where brokers want Kerberos: kproxy logs in, and Spark's own delegation tokens are in nobody's way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kproxy.dev.devcluster import DevCluster
from kproxy.spark import attach, plugin
from tests.harness.clients.spark import TWO_EXECUTORS, connector, needs_spark, session, settings, spark_home
from tests.harness.process import free_window, wait_until
from tests.harness.servers.kdc import REALM, Kdc, needs_kdc
from tests.harness.topics import create_topic, produce, read_topic, values

pytestmark = [
    pytest.mark.matrix,
    needs_spark,
    needs_kdc,
    pytest.mark.timeout(900),
    # pyspark leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def kdc() -> Iterator[Kdc]:
    with Kdc() as made:
        made.principal("alice", "the-user's-key")
        for host in ("brokers.cluster.internal", "127.0.0.1", "kafka-1.cluster.internal", "kafka-2.cluster.internal"):
            made.principal(f"kafka/{host}", "the-brokers-key")
        yield made


@pytest.fixture(scope="module")
def brokers(kdc: Kdc) -> Iterator[DevCluster]:
    """Clients log in with GSSAPI, and could have delegation tokens."""
    properties = {
        "listener.name.client.sasl.enabled.mechanisms": "GSSAPI,SCRAM-SHA-512",
        "sasl.enabled.mechanisms": "GSSAPI,SCRAM-SHA-512",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.client.gssapi.sasl.jaas.config": (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
            f' keyTab="{kdc.keytab("kafka/brokers.cluster.internal")}" principal="kafka/brokers.cluster.internal";'
        ),
        "listener.name.client.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "delegation.token.secret.key": "only for tests",
    }
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={kdc.directory}/krb5.conf")
        made = stack.enter_context(DevCluster(2, client_protocol="SASL_PLAINTEXT", properties=properties))
        patch.undo()
        yield made


def configuration(brokers: DevCluster, kdc: Kdc, listen: str) -> dict[str, Any]:
    login = {"sasl": "GSSAPI", "sasl-username": "alice", "kerberos-keytab": str(kdc.keytab("alice"))}
    return {"bootstrap-servers": brokers.bootstrap, "listen": listen, **login}


def secure_settings(kdc: Kdc, listen: str, directory: Path | None) -> dict[str, str]:
    """With a directory, Hadoop wants Kerberos by what stands in its `hadoop`, and Spark is to have Kafka's tokens."""
    conf = settings(spark_master=TWO_EXECUTORS)
    for role in ("driver", "executor"):
        conf[f"spark.{role}.extraJavaOptions"] = f"-Djava.security.krb5.conf={kdc.directory}/krb5.conf"
    if directory is None:
        return conf
    (directory / "hadoop").mkdir()
    property = "<property><name>hadoop.security.authentication</name><value>kerberos</value></property>"
    (directory / "hadoop" / "core-site.xml").write_text(f"<configuration>{property}</configuration>")
    return conf | {
        "spark.kerberos.principal": f"alice@{REALM}",
        "spark.kerberos.keytab": str(kdc.keytab("alice")),
        "spark.kafka.clusters.ours.auth.bootstrap.servers": listen,
        "spark.kafka.clusters.ours.security.protocol": "SASL_PLAINTEXT",
    }


@pytest.mark.parametrize("hadoop", [False, True], ids=["Spark without Kerberos", "Spark with Kerberos"])
def test_kproxy_logs_in(
    brokers: DevCluster, kdc: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hadoop: bool
) -> None:
    """Executors need the keytab, and neither a ticket nor a delegation token. Spark itself gets tokens on YARN and
    Kubernetes only, whatever spark.kafka.clusters says."""
    for name, value in kdc.environment.items():
        monkeypatch.setenv(name, value)
    listen = f"127.0.0.1:{free_window(202)}"
    config = configuration(brokers, kdc, listen)
    conf = secure_settings(kdc, listen, tmp_path if hadoop else None)
    if hadoop:
        monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "hadoop"))
    topic = create_topic(brokers.direct_bootstrap, 2, 2)
    with session(spark_home(tmp_path), conf | plugin(jars=[connector()])) as spark:
        kafka = {"kafka.bootstrap.servers": attach(spark, config)}
        rows = spark.createDataFrame([(str(number),) for number in range(20)], "value string")
        rows.repartition(4).write.format("kafka").options(**kafka, topic=topic).save()
        assert spark.read.format("kafka").options(**kafka, subscribe=topic).load().count() == 20
        user = spark._jvm.org.apache.hadoop.security.UserGroupInformation
        assert user.isSecurityEnabled() == hadoop
        assert user.getCurrentUser().getTokens().isEmpty()
    assert len(values(read_topic(brokers.direct_bootstrap, topic, 2))) == 20


def test_spark_s_tokens(
    brokers: DevCluster, kdc: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What Spark does by itself on YARN and Kubernetes, done here by hand: its provider logs in to get a token, which
    kproxy refuses, and Spark goes on without. If Spark has a token, its clients log in with it, and are refused."""
    from py4j.protocol import Py4JJavaError

    for name, value in kdc.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "hadoop"))
    listen = f"127.0.0.1:{free_window(202)}"
    patience = {"default.api.timeout.ms": "6000", "request.timeout.ms": "3000"}
    conf = secure_settings(kdc, listen, tmp_path)
    conf |= {f"spark.kafka.clusters.ours.kafka.{key}": value for key, value in patience.items()}
    topic = create_topic(brokers.direct_bootstrap, 2, 2)
    produce(brokers.direct_bootstrap, topic, [b"one", b"two"])
    with session(spark_home(tmp_path), conf | plugin(jars=[connector()])) as spark:
        kafka = {"kafka.bootstrap.servers": attach(spark, configuration(brokers, kdc, listen)), "subscribe": topic}
        jvm, context = spark._jvm, spark.sparkContext._jsc
        manager = jvm.org.apache.spark.deploy.security.HadoopDelegationTokenManager(
            context.sc().conf(), context.hadoopConfiguration(), None
        )
        assert manager.isProviderLoaded("kafka")
        credentials = jvm.org.apache.hadoop.security.Credentials()
        manager.obtainDelegationTokens(credentials)
        assert credentials.numberOfTokens() == 0
        refused = "the client sent a login, but kproxy itself logs in (--sasl): remove the credentials from the client"
        wait_until(lambda: refused in caplog.text, "kproxy says why")
        assert spark.read.format("kafka").options(**kafka).load().count() == 2
        text = jvm.org.apache.hadoop.io.Text
        kind, service = text("KAFKA_DELEGATION_TOKEN"), text("kafka.server.delegation.token.ours")
        token = jvm.org.apache.hadoop.security.token.Token(bytearray(b"id"), bytearray(b"key"), kind, service)
        jvm.org.apache.hadoop.security.UserGroupInformation.getCurrentUser().addToken(service, token)
        impatient = {f"kafka.{key}": value for key, value in patience.items()}
        with pytest.raises(Py4JJavaError, match="TimeoutException"):
            spark.read.format("kafka").options(**kafka, **impatient).load().count()
