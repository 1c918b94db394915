"""A schema registry that others wrote: Apicurio Registry, as a source, and as a target that keeps no ids."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from kproxy.dev.devcluster.jars import find_java
from kproxy.migrate.schemas.registry import RegistryClient
from kproxy.migrate.schemas.transfer import SchemaTransfer, TransferStopped
from kproxy.migrate.spec.schemas_section import RegistrySection, SchemasSection
from tests.harness.process import free_window, wait_until
from tests.harness.servers.schema_registry import SchemaRegistry

pytestmark = [pytest.mark.matrix, pytest.mark.integration, pytest.mark.timeout(900)]

# The newest version that runs on Java 17.
_VERSION = "3.0.9"
_ARTIFACT = f"io.apicurio:apicurio-registry-app:{_VERSION}:tar.gz:all"
ORDER = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
LINE = '{"type": "record", "name": "Line", "fields": [{"name": "order", "type": "Order"}]}'


@pytest.fixture(scope="module")
def apicurio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of Confluent's API at an Apicurio Registry that keeps everything in memory."""
    home = tmp_path_factory.mktemp("apicurio")
    # `copy` reads no POM: that of the archive has a parent that is not published.
    words = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={_ARTIFACT}", f"-DoutputDirectory={home}"]
    subprocess.run(words, check=True, timeout=600, stdin=subprocess.DEVNULL)
    (archive,) = home.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        files.extractall(home, filter="data")
    (jar,) = home.glob("*-runner.jar")
    port = free_window(1)
    environment = {**os.environ, "QUARKUS_HTTP_HOST": "127.0.0.1", "QUARKUS_HTTP_PORT": str(port)}
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            [find_java(), "-Xmx512m", "-jar", str(jar)], cwd=home, env=environment, stdout=log, stderr=log
        )
    url = f"http://127.0.0.1:{port}/apis/ccompat/v7"

    def answers() -> bool:
        assert process.poll() is None, (home / "log").read_text()[-2000:]
        try:
            with closing(urllib.request.urlopen(f"{url}/subjects", timeout=10)):
                return True
        except OSError:
            return False

    try:
        wait_until(answers, "Apicurio answers", 600)
        yield url
    finally:
        process.kill()
        process.wait()


@contextmanager
def transfer(source: str, target: str) -> Iterator[SchemaTransfer]:
    section = SchemasSection(RegistrySection(source), RegistrySection(target))
    with RegistryClient("source", section.source) as one, RegistryClient("target", section.target) as other:
        yield SchemaTransfer(section, one, other, lambda line: None)


def register(url: str, subject: str, **body: object) -> int:
    request = urllib.request.Request(
        f"{url}/subjects/{subject}/versions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with closing(urllib.request.urlopen(request, timeout=60)) as response:
        return int(json.load(response)["id"])


def test_all_that_apicurio_has_is_copied(apicurio: str) -> None:
    ids = [
        register(apicurio, "orders-value", schema=ORDER),
        register(
            apicurio,
            "lines-value",
            schema=LINE,
            references=[{"name": "Order", "subject": "orders-value", "version": 1}],
        ),
        register(apicurio, "events-value", schema='syntax = "proto3"; message A {}', schemaType="PROTOBUF"),
    ]
    with SchemaRegistry().serving() as target, transfer(apicurio, target.url) as copying:
        result = copying.run_round()
        assert result.is_verified, result.findings
        assert not copying.run_round().changes
    assert [target.subjects[name].versions[1].id for name in ("orders-value", "lines-value", "events-value")] == ids


def test_apicurio_as_target_is_noticed_before_it_gives_an_id(apicurio: str) -> None:
    with SchemaRegistry(7000).serving() as source:
        source.register("new-value", '"int"')
        stops = pytest.raises(TransferStopped, match="does not keep the mode IMPORT")
        with transfer(source.url, apicurio) as copying, stops:
            copying.run_round()
    with pytest.raises(urllib.error.HTTPError) as refusal:
        urllib.request.urlopen(f"{apicurio}/subjects/new-value/versions", timeout=60)
    refusal.value.close()
