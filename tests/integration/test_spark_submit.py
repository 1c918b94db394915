"""The pods that the real spark-submit and the real driver make of the templates in deploy/spark/kubernetes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness.process import wait_until
from tests.harness.programs.kustomize import MISSING, PROGRAM, only, render
from tests.harness.servers.kube_api import KubeApi, kube_api

pyspark = pytest.importorskip("pyspark")

pytestmark = [pytest.mark.integration, pytest.mark.skipif(PROGRAM is None, reason=MISSING)]

FOLDER = Path(__file__).parents[2] / "deploy" / "spark" / "kubernetes"
ARGUMENTS = ["driver", "--properties-file", "/opt/spark/conf/spark.properties", "--class"]


@contextmanager
def spark_submit(api: KubeApi, templates: str, directory: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """spark-submit with both templates of a folder; it says what it does in `log`, and is killed in the end."""
    for role in ("driver", "executor"):
        (directory / f"{role}.yaml").write_text(yaml.safe_dump(template(templates, role)))
    home = Path(pyspark.__file__).parent
    settings = {
        "spark.kubernetes.namespace": "spark",
        "spark.kubernetes.container.image": "spark",
        "spark.kubernetes.driver.podTemplateFile": directory / "driver.yaml",
        "spark.kubernetes.executor.podTemplateFile": directory / "executor.yaml",
        "spark.kubernetes.submission.waitAppCompletion": "false",
        "spark.executor.instances": "1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    configured = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    with (directory / "log").open("wb") as log, subprocess.Popen(
        [home / "bin" / "spark-submit", "--master", f"k8s://{api.url}", *configured, *words],
        env={**os.environ, "SPARK_HOME": str(home), "KUBECONFIG": os.devnull, "PYSPARK_PYTHON": sys.executable},
        stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def template(folder: str, role: str) -> dict[str, Any]:
    return only(render(FOLDER / folder), "Pod", role)


def is_part(wanted: Any, found: Any) -> bool:
    """Whether all of what is wanted is there; Spark adds to it."""
    if isinstance(wanted, dict):
        return all(key in found and is_part(value, found[key]) for key, value in wanted.items())
    if isinstance(wanted, list):
        return all(any(is_part(one, other) for other in found) for one in wanted)
    return bool(wanted == found)


def test_the_driver_s_pod(tmp_path: Path) -> None:
    """With an ordinary container, which asks more of Spark: another command, and an order."""
    folder = "without-native-sidecars"
    cluster = ("--deploy-mode", "cluster", "local:///opt/job.py")
    with kube_api() as api, spark_submit(api, folder, tmp_path, *cluster) as done:
        assert done.wait(120) == 0, (tmp_path / "log").read_text()
        (pod,) = api.pods("driver")
        (kept,) = [one for one in api.created if one["kind"] == "ConfigMap" and "podspec" in one["metadata"]["name"]]
    # kproxy is started first, and Spark's entry point gets Spark's arguments.
    kproxy, driver = pod["spec"]["containers"]
    assert kproxy["name"] == "kproxy"
    assert driver["name"] == "spark-kubernetes-driver"
    assert driver["args"][:4] == ARGUMENTS
    assert is_part(without_nothing(template(folder, "driver")["spec"]), pod["spec"])
    # With it the driver makes its executors.
    (text,) = kept["data"].values()
    assert is_part(template(folder, "executor")["spec"], yaml.safe_load(text)["spec"])


def without_nothing(spec: dict[str, Any]) -> dict[str, Any]:
    """Without empty lists, which Spark's client leaves out."""
    return {key: value for key, value in spec.items() if value != []}


def test_an_executor_s_pod(tmp_path: Path) -> None:
    """With a native sidecar."""
    job = tmp_path / "job.py"
    job.write_text("from pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate()\ninput()\n")
    client = ("--deploy-mode", "client", str(job))
    with kube_api() as api, spark_submit(api, "pod-templates", tmp_path, *client):
        (pod, *_) = wait_until(lambda: api.pods("executor"), "the driver makes an executor", 120)
    assert is_part(template("pod-templates", "executor")["spec"], pod["spec"])
    assert pod["spec"]["containers"][-1]["name"] == "spark-kubernetes-executor"
