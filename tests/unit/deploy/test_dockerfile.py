"""The image's recipe: linted, and what it promises."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import sysconfig
from fnmatch import fnmatch
from pathlib import Path

import pytest

from kproxy.base.address import Address
from kproxy.proxy.admin.handlers import AdminSources, Readiness
from kproxy.proxy.admin.routes import TABLE
from kproxy.proxy.admin.server import start_admin
from kproxy.proxy.metrics import Metrics
from tests.unit.deploy.deployed import (
    CONTAINER_FILE,
    IMAGE_FILE,
    ROOT,
    all_ports,
    kproxy_commands,
    run_config,
    shell_lines,
)
from tests.unit.deploy.dockerfile import DOCKERFILE, healthcheck, image_env, kproxy_env, of, stages

DOCKER_RUNS = [
    line.removeprefix("#").strip()
    for path in (ROOT / "deploy" / "README.md", DOCKERFILE)
    for line in (*shell_lines(path.read_text()), *path.read_text().splitlines())
    if line.removeprefix("#").strip().startswith("docker run") and not line.endswith("\\")
]
HADOLINT = Path(sysconfig.get_path("scripts"), "hadolint")


def lint(text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([HADOLINT, "-"], input=text, capture_output=True, text=True, timeout=60, check=False)


def test_hadolint_has_nothing_to_say() -> None:
    done = lint(DOCKERFILE.read_text())

    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_hadolint_would_say_it() -> None:
    done = lint(DOCKERFILE.read_text().replace("--no-cache-dir ", ""))

    assert done.returncode == 1
    assert "DL3042" in done.stdout


def test_the_base_is_the_same_small_image_and_names_no_registry() -> None:
    bases = [rest.split()[0] for stage in stages() for rest in of(stage, "FROM")]

    assert bases == ["python:3.13-slim"] * 2


def test_it_runs_as_a_number_that_is_not_root() -> None:
    user = of(stages()[-1], "USER")[-1]

    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user), user


def test_only_runtime_dependencies_are_installed_and_no_pip() -> None:
    build, final = stages()
    (install,) = [rest for rest in of(build, "RUN") if " --python " in rest]

    assert install.split()[-1] == "."  # no extras, no groups
    assert {"--no-cache-dir", "--compile"} <= set(install.split())
    assert "KPROXY_COMPILED=1" in install.split()
    assert "--without-pip" in " ".join(of(build, "RUN"))
    assert of(final, "RUN") == []
    assert of(final, "COPY") == ["--from=build /opt/kproxy /opt/kproxy", f"deploy/image.yaml {CONTAINER_FILE}"]


def test_what_is_copied_is_sent_to_the_build_and_nothing_else() -> None:
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    copied = [
        words for stage in stages() for rest in of(stage, "COPY") if "--from" not in rest for words in [rest.split()]
    ]
    sources = {source for words in copied for source in words[:-1]}

    assert lines[0] == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == sources
    assert any(fnmatch("kproxy/cli/__pycache__", line.replace("**", "*")) for line in lines[1:])
    assert all((ROOT / source).exists() for source in sources)


def test_it_stops_as_kproxy_drains() -> None:
    final = stages()[-1]

    assert of(final, "STOPSIGNAL") == ["SIGTERM"]
    assert of(final, "ENTRYPOINT") == ['["kproxy"]']  # as process 1: a shell would not pass the signal on


def test_the_default_command_needs_nothing_but_bootstrap_servers() -> None:
    (command,) = of(stages()[-1], "CMD")
    config = run_config(json.loads(command), {**kproxy_env(), "KPROXY_BOOTSTRAP_SERVERS": "kafka:9092"})

    assert config.clusters[0].listen.is_wildcard
    assert config.admin is not None
    assert config.admin.is_wildcard


def test_flags_win_over_the_files_of_the_image() -> None:
    config = run_config(["run", "-b", "kafka:9092", "--listen", "0.0.0.0:29092", "--admin", "off"], kproxy_env())

    assert config.clusters[0].listen == Address("0.0.0.0", 29092)
    assert config.admin is None


def test_a_file_with_several_clusters_can_replace_the_default() -> None:
    files = {CONTAINER_FILE: ROOT / "config" / "two-clusters.yaml"}

    assert len(run_config(["run"], kproxy_env(), files).clusters) == 2


def test_every_port_of_the_image_is_exposed() -> None:
    config = run_config(["run", "-b", "kafka:9092"], kproxy_env())
    exposed: set[int] = set()
    for ports in " ".join(of(stages()[-1], "EXPOSE")).split():
        first, _, last = ports.partition("-")
        exposed |= set(range(int(first), int(last or first) + 1))

    assert config.admin is not None
    assert exposed == all_ports(config) | {config.admin.port}


def test_the_health_check_asks_the_admin_endpoint_of_the_image() -> None:
    config = run_config(["run", "-b", "kafka:9092"], kproxy_env())
    asked = re.search(r"HTTPConnection\('127\.0\.0\.1', (\d+).*'GET', '(/\w+)'", healthcheck()[-1])

    assert asked is not None
    assert config.admin is not None
    assert int(asked[1]) == config.admin.port
    assert asked[2] in {route.path for route in TABLE}
    assert healthcheck()[0] == "python"  # the image has no curl


async def test_the_health_check_follows_readiness() -> None:
    reasons = ["no broker yet"]

    admin = await start_admin(Address("127.0.0.1", 0), AdminSources(Metrics(), dict, lambda _: Readiness(reasons)))
    port = admin.address.port

    async def healthy() -> bool:
        """Exit code 0. A proxy in the environment must not be asked."""
        code = healthcheck()[-1].replace(", 19091,", f", {port},")
        options = healthcheck()[1:-1]
        check = await asyncio.create_subprocess_exec(
            sys.executable, *options, code, env={"http_proxy": "http://127.0.0.1:9"}, stderr=asyncio.subprocess.DEVNULL
        )
        return await check.wait() == 0

    try:
        assert not await healthy()
        reasons.clear()
        assert await healthy()
    finally:
        await admin.close()
    assert not await healthy()


@pytest.mark.parametrize("line", DOCKER_RUNS)
def test_documented_ports_are_published_under_their_numbers(line: str) -> None:
    (words,) = kproxy_commands(line)
    config = run_config(words, kproxy_env())
    cluster = config.clusters[0]
    window = cluster.effective_node_ports()
    outside: dict[int, int] = {}
    for published in re.findall(r"-p (\S+)", line):
        (first_out, last_out), (first_in, last_in) = (
            (int(part.partition("-")[0]), int(part.rpartition("-")[2])) for part in published.split(":")[-2:]
        )
        assert last_out - first_out == last_in - first_in
        outside |= {port: first_out + port - first_in for port in range(first_in, last_in + 1)}

    assert cluster.listen.port in outside
    for port in range(window.first, window.last + 1):
        assert outside[port] == cluster.advertised_port(port)


def test_the_image_s_file_is_where_the_environment_says() -> None:
    assert image_env()["KPROXY_CONFIG"] == CONTAINER_FILE
    assert IMAGE_FILE.is_file()
    assert image_env()["PYTHONDONTWRITEBYTECODE"] == "1"  # nothing can be written
