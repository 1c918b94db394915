"""deploy/spark/kubernetes as it runs: the containers' own commands, variables, hooks and probes, in a pod's network.

    node 10.0.0.60          pod 10.0.0.61             kafka-1.vpc.internal:9092   10.0.0.11
    (kubelet) ── probes ──▶ kproxy 127.0.0.1:19092 ─▶ kafka-2.vpc.internal:9092   10.0.0.12
                            Spark: a Kafka client     kafka-3.vpc.internal:9092   10.0.0.13

The brokers' names mean nothing in the pod. Spark is a shell script that starts a client; where it is the real one,
tests/integration/test_spark_submit.py looks at the pods that it makes.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.network import ROOT, Host
from tests.harness.process import wait_until
from tests.harness.programs.kustomize import MISSING, PROGRAM, only, render
from tests.harness.programs.pods import Container, Pod
from tests.harness.topics import unique
from tests.scenarios.roundtrip import RECORDS
from tests.scenarios.sites import Site, fails, roundtrip

pytestmark = [pytest.mark.integration, pytest.mark.skipif(PROGRAM is None, reason=MISSING)]

FOLDER = ROOT / "deploy" / "spark" / "kubernetes"
BOOTSTRAP = "127.0.0.1:19092"
BROKERS = {"KPROXY_BOOTSTRAP_SERVERS": "10.0.0.11:9092,10.0.0.12:9092,10.0.0.13:9092"}
IMAGE = ("kproxy",)  # what the Dockerfile has as the entry point

MakePod = Callable[..., Pod]


@pytest.fixture
def pod(host: Callable[..., Host], tmp_path: Path) -> MakePod:
    """Makes the pod of a test, with a configuration where the manifests mount it."""
    kubelet = host("node", "10.0.0.60/24")

    def make(folder: str, **names: str) -> Pod:
        made = Pod(host("pod", "10.0.0.61/24", names=names), "10.0.0.61", kubelet, tmp_path)
        made.mount("/etc/kproxy", only(render(FOLDER / folder), "ConfigMap")["data"])
        return made

    return make


def client(topic: str, word: str, bootstrap: str = BOOTSTRAP) -> list[str]:
    return roundtrip("librdkafka", bootstrap, topic, word)


def sent(site: Site, topic: str, word: str) -> bool:
    return site.records(topic) == sorted(f"{word}-{number}".encode() for number in range(RECORDS))


def named(containers: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (found,) = [one for one in containers if one["name"] == name]
    return found


def test_a_native_sidecar(cloud: Site, pod: MakePod) -> None:
    """Ready before Spark starts, it carries Spark's clients, and ends when it is told to after Spark has ended.

    Executors and pods of the operator have the same: tests/unit/deploy/test_spark_manifests.py.
    """
    here = pod("base")
    (sidecar,) = only(render(FOLDER / "pod-templates"), "Pod", "driver")["spec"]["initContainers"]
    topic, word = cloud.topic(), unique("word")
    with here.running(sidecar, entrypoint=IMAGE, env=BROKERS) as kproxy:
        here.started(kproxy)
        done = here.host.run(*client(topic, word))
        assert done.returncode == 0, done.stdout + done.stderr
        assert here.asked(kproxy, "livenessProbe")
        kproxy.process.terminate()
        assert kproxy.process.wait(30) == 0
    assert sent(cloud, topic, word)
    assert "Name or service not known" in fails(here.host, "librdkafka", "10.0.0.11:9092", topic)


def test_spark_does_not_start_while_no_broker_answers(pod: MakePod) -> None:
    here = pod("base")
    (sidecar,) = only(render(FOLDER / "pod-templates"), "Pod", "driver")["spec"]["initContainers"]
    with here.running(sidecar, entrypoint=IMAGE, env={"KPROXY_BOOTSTRAP_SERVERS": "10.0.0.61:1"}) as kproxy:
        wait_until(lambda: here.asked(kproxy, "livenessProbe"), "kproxy lives")
        assert not here.asked(kproxy, "startupProbe")


def spark(here: Pod, script: str) -> None:
    """Lay down an entry point as Spark's image has one."""
    here.mount("/run/kproxy", {})
    here.mount("/opt", {"entrypoint.sh": f"#!/bin/sh\n{script}\n"})


def test_without_native_sidecars_the_pod_completes(cloud: Site, pod: MakePod) -> None:
    here = pod("base")
    spec = only(render(FOLDER / "without-native-sidecars"), "Pod", "driver")["spec"]
    topic, word = cloud.topic(), unique("word")
    spark(here, f'echo "arguments: $*"\n{shlex.join(client(topic, word))} || exit 1\nexit 3')
    with here.running(named(spec["containers"], "kproxy"), entrypoint=IMAGE, env=BROKERS) as kproxy:
        assert kproxy.process.poll() is None
        with here.running(named(spec["containers"], "spark-kubernetes-driver"), "driver", "a b") as driver:
            assert driver.process.wait(60) == 3, driver.said()
            assert "arguments: driver a b" in driver.said()
            ended(kproxy)
    assert sent(cloud, topic, word)


def test_without_native_sidecars_spark_is_told_to_stop(pod: MakePod) -> None:
    """Deleting a pod is SIGTERM for its containers: Spark gets it, and kproxy ends only after Spark has."""
    here = pod("base")
    spec = only(render(FOLDER / "without-native-sidecars"), "Pod", "executor")["spec"]
    spark(here, "trap 'echo told; sleep 0.5; exit 5' TERM\necho waits\nsleep 600 &\nwait")
    # No broker: the hook would wait two minutes.
    kproxy_spec = {key: value for key, value in named(spec["containers"], "kproxy").items() if key != "lifecycle"}
    with (
        here.running(kproxy_spec, entrypoint=IMAGE, env=BROKERS) as kproxy,
        here.running(named(spec["containers"], "spark-kubernetes-executor"), "executor") as executor,
    ):
        wait_until(lambda: here.asked(kproxy, "livenessProbe") and "waits" in executor.said(), "both run")
        executor.process.terminate()
        wait_until(lambda: "told" in executor.said(), "Spark has the signal")
        assert kproxy.process.poll() is None
        assert executor.process.wait(30) == 5
        ended(kproxy)


def ended(kproxy: Container) -> None:
    assert kproxy.process.wait(30) == 0, kproxy.said()
    assert "--exit-with /run/kproxy/ended: the file exists: stopping" in kproxy.said()


def test_a_daemonset_serves_other_pods_by_its_services_name(
    cloud: Site, pod: MakePod, host: Callable[..., Host]
) -> None:
    """The Service's address leads to the kproxy of the node: here, where there is just one, to it."""
    here = pod("daemonset")
    service = only(render(FOLDER / "daemonset"), "Service")["metadata"]["name"]
    spec = only(render(FOLDER / "daemonset"), "DaemonSet")["spec"]["template"]["spec"]["containers"][0]
    other = host("other", "10.0.0.62/24", names={f"{service}.spark.svc": "10.0.0.61"})
    topic, word = cloud.topic(), unique("word")
    with here.running(spec, entrypoint=IMAGE, env={"NAMESPACE": "spark", **BROKERS}) as kproxy:
        wait_until(lambda: here.asked(kproxy, "readinessProbe"), "it is ready")
        assert here.asked(kproxy, "livenessProbe")
        done = other.run(*client(topic, word, f"{service}.spark.svc:19092"))
        assert done.returncode == 0, done.stdout + done.stderr
        kproxy.process.terminate()
        assert kproxy.process.wait(30) == 0
    assert sent(cloud, topic, word)
