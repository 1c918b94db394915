"""Spark where brokers want Kerberos: kproxy logs in, and Spark's own delegation tokens are in nobody's way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kproxy.devcluster import DevCluster
from kproxy.spark import attach, plugin
from tests.harness.clients import create_topic, read_topic, values
from tests.harness.kdc import REALM, Kdc, needs_kdc
from tests.harness.process import free_window
from tests.harness.spark import TWO_EXECUTORS, connector, needs_spark, session, settings, spark_home

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


@pytest.mark.parametrize("hadoop", [False, True], ids=["Spark without Kerberos", "Spark with Kerberos"])
def test_kproxy_logs_in(
    brokers: DevCluster, kdc: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hadoop: bool
) -> None:
    """Executors need the keytab, and neither a ticket nor a delegation token. Spark itself gets tokens on YARN and
    Kubernetes only, whatever spark.kafka.clusters says."""
    for name, value in kdc.environment.items():
        monkeypatch.setenv(name, value)
    keytab = str(kdc.keytab("alice"))
    listen = f"127.0.0.1:{free_window(202)}"
    config = {
        "bootstrap-servers": brokers.bootstrap, "listen": listen,
        "sasl": "GSSAPI", "sasl-username": "alice", "kerberos-keytab": keytab,
    }  # fmt: skip
    conf = settings(spark_master=TWO_EXECUTORS)
    for role in ("driver", "executor"):
        conf[f"spark.{role}.extraJavaOptions"] += f" -Djava.security.krb5.conf={kdc.directory}/krb5.conf"
    if hadoop:
        site = tmp_path / "hadoop"
        site.mkdir()
        property = "<property><name>hadoop.security.authentication</name><value>kerberos</value></property>"
        (site / "core-site.xml").write_text(f"<configuration>{property}</configuration>")
        monkeypatch.setenv("HADOOP_CONF_DIR", str(site))
        conf |= {
            "spark.kerberos.principal": f"alice@{REALM}",
            "spark.kerberos.keytab": keytab,
            "spark.kafka.clusters.ours.auth.bootstrap.servers": listen,
            "spark.kafka.clusters.ours.security.protocol": "SASL_PLAINTEXT",
        }
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
