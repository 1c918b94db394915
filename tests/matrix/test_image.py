"""The container image as a release has it: made from the Dockerfile, run read-only, with a real broker behind it."""

from __future__ import annotations

import re
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kproxy.dev.devcluster import DevCluster
from tests.harness import network
from tests.harness.network import Host, Network
from tests.harness.process import wait_until
from tests.harness.programs.javac import NotInstalled
from tests.harness.topics import create_topic, produce, read_topic, unique, values
from tests.matrix.images import Builder, Container, unavailable
from tests.unit.deploy.dockerfile import healthcheck, image_env, of, stages

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(1800)]

IMAGE = "localhost/kproxy:test"
BASE = of(stages()[-1], "FROM")[0]
USER = 65532
# It is 61 MB today. Users pull this much at each release; most of them have the base already.
MOST_BYTES = 80_000_000
# What an ordinary user of the image must not be able to do.
_TRY = """
import os
print(os.getuid(), os.getgid(), os.getgroups())
print(*[line.split()[1] for line in open("/proc/self/status") if line.startswith(("CapEff", "CapBnd", "NoNewPrivs"))])
for path in ("/opt/kproxy", "/etc/kproxy", "/tmp", "/var/tmp", "/dev", "/run", "/"):
    try:
        open(path + "/written", "w")
    except OSError as error:
        print(error.strerror)
"""


@pytest.fixture(scope="module")
def builder() -> Iterator[Builder]:
    """It has made the image."""
    if problem := unavailable():
        pytest.skip(problem)
    with tempfile.TemporaryDirectory(prefix="kproxy-image-") as directory:
        made = Builder(Path(directory))
        try:
            made.add_base(f"localhost/{BASE}")
        except NotInstalled as error:
            pytest.skip(f"the base image: {error}")
        made.make_image(IMAGE)
        yield made


@pytest.fixture(scope="module")
def config(builder: Builder) -> dict[str, Any]:
    return builder.config(IMAGE)


@pytest.fixture(scope="module")
def root(builder: Builder) -> Iterator[Path]:
    with builder.root(IMAGE) as files:
        yield files


@pytest.fixture(scope="module")
def wires() -> Iterator[Network]:
    if problem := network.unavailable():
        pytest.skip(problem)
    with Network() as made:
        yield made


def files(root: Path) -> dict[str, tuple[int, int, int, int]]:
    """What is in an image by its path: mode, owner, size and time (of directories, mode and owner)."""
    found = {}
    for path in root.rglob("*"):
        seen = path.lstat()
        directory = stat.S_ISDIR(seen.st_mode)
        found[str(path.relative_to(root))] = (
            seen.st_mode, seen.st_uid, 0 if directory else seen.st_size, 0 if directory else int(seen.st_mtime)
        )  # fmt: skip
    return found


def test_what_it_says_of_itself(config: dict[str, Any]) -> None:
    """As the Dockerfile has it."""
    final = stages()[-1]
    (labels,) = of(final, "LABEL")
    assert config["User"] == f"{USER}:{USER}"
    assert dict(re.findall(r'([\w.]+)="([^"]*)"', labels)).items() <= config["Labels"].items()
    assert (config["Entrypoint"], config["Cmd"], config["WorkingDir"]) == (["kproxy"], ["run"], "/")
    assert config["StopSignal"] == "SIGTERM"
    assert config["Healthcheck"]["Test"] == ["CMD", *healthcheck()]
    assert [f"{port}/tcp" for port in of(final, "EXPOSE")[0].split()] == sorted(config["ExposedPorts"])
    assert {one.partition("=")[0] for one in config["Env"]} == image_env().keys()


def test_it_has_kproxy_beside_its_base_and_nothing_else(builder: Builder, root: Path) -> None:
    """Neither pip nor a compiler, no configuration of this machine's, nothing that its user can change."""
    with builder.root(f"localhost/{BASE}") as base:
        before = files(base)
    after = files(root)
    added = {path: seen for path, seen in after.items() if path not in before}
    assert {path: seen for path, seen in after.items() if path in before} == before
    assert {"/".join(path.split("/")[:2]) for path in added} == {"opt/kproxy", "etc/kproxy"}
    programs = {path.removeprefix("opt/kproxy/bin/") for path in added if path.startswith("opt/kproxy/bin/")}
    assert {"kproxy", "python"} <= programs
    assert not {one for one in programs if re.match(r"pip|cc|gcc|g\+\+|c\+\+|clang|ld$|make|cargo|rustc", one)}
    assert not [path for path in added if re.search(r"/site-packages/(pip|setuptools)/", path)]
    assert not [path for path, (mode, owner, *_) in added.items() if owner or (mode & 0o22 and not stat.S_ISLNK(mode))]
    # Nothing can be compiled where it runs.
    sources = [Path(path) for path in added if re.search(r"/site-packages/kproxy/.*\.py$", path)]
    assert len(sources) > 100
    assert not [
        one for one in sources if not list((root / one.parent / "__pycache__").glob(f"{one.stem}.cpython-*.pyc"))
    ]
    size = sum(size for _, _, size, _ in added.values())
    assert size < MOST_BYTES, f"it adds {size:,} bytes to its base"


def test_it_runs_as_nobody_and_can_write_nothing(
    wires: Network, root: Path, config: dict[str, Any], tmp_path: Path
) -> None:
    with wires.host("alone") as host:
        container = Container(tmp_path, root, config, f"/proc/{host.pid}/ns/net")
        with container.running("--version") as process:
            assert process.wait(120) == 0, container.log.read_text()
        assert re.fullmatch(r"kproxy \d+\.\d+\.\d+ \(compiled\)\n", container.log.read_text())
        python = Container(tmp_path, root, {**config, "Entrypoint": ["python", "-c"]}, f"/proc/{host.pid}/ns/net")
        with python.running(_TRY) as process:
            assert process.wait(120) == 0, python.log.read_text()
        user, rights, *writes = python.log.read_text().splitlines()
        assert user == f"{USER} {USER} []"
        assert set(rights.split()) == {"0000000000000000", "1"}
        assert len(writes) == 7
        assert set(writes) == {"Read-only file system", "Permission denied"}
        # Python itself is the one that the Dockerfile asks for.
        with python.running("import sys; print(sys.prefix, *sys.version_info[:2], sep='.')") as process:
            assert process.wait(120) == 0
        assert python.log.read_text() == f"/opt/kproxy.{re.findall('[0-9.]+', BASE)[0]}\n"
        with python.running("import pip") as process:
            assert process.wait(120) == 1
        assert "No module named 'pip'" in python.log.read_text()


def test_its_clients_reach_a_broker(wires: Network, root: Path, config: dict[str, Any], tmp_path: Path) -> None:
    """As deploy/README.md says for others: --advertise is the address at which clients reach the container."""
    cluster = DevCluster(1, client_bound="10.0.0.1{id}:9092", heap="128m")
    with (
        wires.host("cloud", "10.0.0.11/24") as cloud,
        wires.host("container", "10.0.0.20/24", "10.9.0.20/24") as here,
        wires.host("laptop", "10.9.0.30/24") as laptop,
    ):
        try:
            cloud.call(cluster.start)
            topic = cloud.call(create_topic, cluster.direct_bootstrap, 1, 1)
            container = Container(tmp_path, root, config, f"/proc/{here.pid}/ns/net")
            with container.running("run", "-b", "10.0.0.11:9092", "--advertise", "10.9.0.20") as process:
                check = config["Healthcheck"]["Test"][1:]
                wait_until(lambda: container.exec(check).returncode == 0, "the health check succeeds", 120)
                word = unique("word")
                _through(laptop, "10.9.0.20:19092", topic, word)
                assert values(cloud.call(read_topic, cluster.direct_bootstrap, topic, 1)) == [word.encode()]
                container.stop()
                assert process.wait(60) == 0, container.log.read_text()
            said = container.log.read_text()
            assert "ready; bootstrap.servers=" in said
            assert not re.search(r"Traceback|Read-only|WARNING|ERROR", said), said
        finally:
            cluster.stop(timeout=0)


def test_the_health_check_fails_without_a_broker(
    wires: Network, root: Path, config: dict[str, Any], tmp_path: Path
) -> None:
    with wires.host("alone", "10.0.0.20/24") as host:
        container = Container(tmp_path, root, config, f"/proc/{host.pid}/ns/net")
        with container.running("run", "-b", "10.0.0.11:9092"):
            wait_until(lambda: "10.0.0.11:9092" in container.log.read_text(), "it has begun", 120)
            check = config["Healthcheck"]["Test"][1:]
            assert container.exec(check).returncode == 1


def _through(laptop: Host, bootstrap: str, topic: str, word: str) -> None:
    laptop.call(produce, bootstrap, topic, [word.encode()], 0)
    assert values(laptop.call(read_topic, bootstrap, topic, 1)) == [word.encode()]
