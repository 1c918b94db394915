"""A real local Kafka cluster (JVM processes, KRaft) whose advertised names resolve nowhere.

For the demo, for `kproxy devcluster` and for the tests. It needs Java 17 and, the first time, Maven. Everything is on
127.0.0.1, in a temporary directory that is removed at the end; no process outlives the one that started the cluster.

    from kproxy.dev.devcluster import DevCluster

    with DevCluster(brokers=3) as cluster:            # node ids 1, 2, 3; about four seconds
        cluster.bootstrap                             # '127.0.0.1:23871,127.0.0.1:29013,…': these accept,
        cluster.advertised[1]                         # but say that they are kafka-1.cluster.internal:9092
        cluster.dial[1]                               # Address('127.0.0.1', 23871)
        cluster.direct_bootstrap                      # the brokers' own listeners, advertised truthfully

        done = cluster.tool(                          # Kafka's own Java tools, by script name or class
            "kafka-topics", "--bootstrap-server", cluster.direct_bootstrap,
            "--create", "--topic", "t", "--partitions", "6",
        )
        assert done.returncode == 0, done.stderr

        cluster.kill(2)                               # SIGKILL; `stop_broker(2)` is the clean way
        cluster.wait_fenced(2)                        # the others have noticed (about 4 s after a kill)
        cluster.restart(2, new_port=True)             # the same broker at another dial address
        cluster.add(49176)                            # one more broker, with any node id

    DevCluster(brokers=[1001, 49176], advertised="b{id}.example:19092", properties={"message.max.bytes": "9"})

    cluster       the cluster: names, ports, brokers, tools
    fleet         the processes of the cluster: start, stop, kill, wait
    node          one process
    properties    the server.properties and listeners of a node
    readiness     asks a broker which brokers are alive
    jars          downloads Kafka from Maven, once
    archive       class-data archives, with which Java starts in half the time
    storage       the formatted storage of a controller
    tools         Kafka's own Java tools
    certificates  a certificate authority and certificates for TLS listeners
    interrupts    Ctrl-C while a cluster runs
    trialcluster  `kproxy devcluster`
    screen        output on a terminal, for `trialcluster` and the demo

Topics have three partitions, three replicas and min.insync.replicas=2 unless told otherwise (fewer in smaller
clusters). Logs are in `cluster.directory / "node-1" / "kafka.log"`; `keep=True` leaves them there.
"""

from kproxy.dev.devcluster.cluster import DEFAULT_ADVERTISED, DevCluster
from kproxy.dev.devcluster.jars import DEFAULT_VERSION
from kproxy.dev.devcluster.properties import CLIENT, INTERNAL, ListenerSpec
from kproxy.dev.devcluster.tools import TOOLS, Programs

__all__ = [
    "CLIENT",
    "DEFAULT_ADVERTISED",
    "DEFAULT_VERSION",
    "INTERNAL",
    "TOOLS",
    "DevCluster",
    "ListenerSpec",
    "Programs",
]
