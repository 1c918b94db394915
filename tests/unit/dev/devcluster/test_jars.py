"""Finding Java and Maven, and the one line that says what is missing. The programs here are small scripts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kproxy.base.errors import ConfigError
from kproxy.dev.demo import story
from kproxy.dev.devcluster import DEFAULT_VERSION, DevCluster
from kproxy.dev.devcluster.archive import make_archive
from kproxy.dev.devcluster.jars import check_requirements, fetch_jars, find_java
from kproxy.dev.devcluster.tools import TOOLS, Programs


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with nothing in it but what the test puts there, and an empty cache."""
    found = tmp_path / "bin"
    found.mkdir()
    monkeypatch.setenv("PATH", str(found))
    monkeypatch.setenv("KPROXY_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("MAVEN_HOME", raising=False)
    return found


def _script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def _java(path: Path, version: str) -> None:
    _script(path, f"echo 'openjdk version \"{version}\" 2026-01-01' >&2")


# Writes one jar to the directory that -DoutputDirectory names, and counts its calls beside itself.
_MVN = """
echo called >> "$0.calls"
for one; do case "$one" in -DoutputDirectory=*) out="${one#*=}";; esac; done
/bin/mkdir -p "$out" && echo jar > "$out/kafka.jar"
"""


def test_no_java(path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^java was not found: install a Java runtime, version 17 or newer"):
        DevCluster().start()


def test_all_that_the_demo_lacks_is_said_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command for the Python that runs kproxy, which pipx or an environment may hide."""
    monkeypatch.setattr(story.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError) as caught:
        story.run_demo(once=True)
    assert caught.value.problems == (
        f"the demo needs the client confluent-kafka: {sys.executable} -m pip install confluent-kafka",
        "java was not found: install a Java runtime, version 17 or newer, or set JAVA_HOME",
        f"mvn was not found: install Apache Maven, which fetches Kafka {DEFAULT_VERSION} (once)",
    )
    (path.parent / "pipx_metadata.json").touch()
    monkeypatch.setattr(sys, "prefix", str(path.parent))
    _script(path / "apt-get", "exit 1")
    _java(path / "java", "21.0.1")
    with pytest.raises(ConfigError) as caught:
        story.run_demo(once=True)
    assert caught.value.problems == (
        f"the demo needs the client confluent-kafka: pipx inject {path.parent.name} confluent-kafka",
        "mvn was not found: install Apache Maven (apt-get install maven),"
        f" which fetches Kafka {DEFAULT_VERSION} (once)",
    )


def test_without_something_to_fetch_maven_is_not_needed(path: Path) -> None:
    _java(path / "java", "17.0.1")
    _script(path / "mvn", _MVN)
    fetch_jars(DEFAULT_VERSION)
    (path / "mvn").unlink()
    check_requirements(DEFAULT_VERSION)


def test_an_old_java(path: Path) -> None:
    _java(path / "java", "1.8.0_392")
    with pytest.raises(ConfigError, match=r"is Java 8, but Kafka 4\.3\.1 needs Java 17"):
        find_java("4.3.1")
    _java(path / "java", "11.0.2")
    assert find_java("3.9.0") == str(path / "java")


def test_java_home_comes_first(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _java(path / "java", "11.0.2")
    _java(tmp_path / "jdk" / "bin" / "java", "21")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert find_java("4.3.1") == str(tmp_path / "jdk" / "bin" / "java")


def test_a_java_that_does_not_run(path: Path) -> None:
    _script(path / "java", "exit 3")
    with pytest.raises(ConfigError, match=r"does not run: .* ended with code 3"):
        find_java("4.3.1")


def test_no_maven(path: Path) -> None:
    _java(path / "java", "17.0.1")
    with pytest.raises(ConfigError, match=r"^mvn was not found: install Apache Maven"):
        DevCluster().start()


def test_maven_that_fails_says_why_in_one_line(path: Path, tmp_path: Path) -> None:
    _script(path / "mvn", "echo '[INFO] hello'; echo '[ERROR] no such artifact -> [Help 1]'; exit 1")
    with pytest.raises(ConfigError) as failed:
        fetch_jars("4.3.1")
    assert str(failed.value) == "Maven could not fetch Kafka 4.3.1: no such artifact"
    assert [one.suffix for one in (tmp_path / "cache").iterdir()] == [".lock"]


def test_jars_are_fetched_once_and_appear_complete(path: Path, tmp_path: Path) -> None:
    _script(path / "mvn", _MVN)
    told: list[str] = []
    first = fetch_jars("4.3.1", told.append)
    assert (first / "kafka.jar").read_text() == "jar\n"
    assert len(told) == 1
    assert fetch_jars("4.3.1", told.append) == first
    assert len(told) == 1
    assert fetch_jars("4.2.0") != first
    assert (path / "mvn.calls").read_text().split() == ["called", "called"]


@pytest.mark.parametrize(
    ("version", "scala", "zookeeper"),
    [("0.11.0.3", "2.12", 1), ("2.2.2", "2.12", 1), ("2.4.1", "2.13", 0), ("4.3.1", "2.13", 0)],
)
def test_what_is_asked_of_maven(path: Path, tmp_path: Path, version: str, scala: str, zookeeper: int) -> None:
    """Kafka 2.13 jars begin with 2.4; before, ZooKeeper's own version does not work on Java 14 and newer."""
    asked = tmp_path / "asked.xml"
    _script(path / "mvn", f'for one; do case "$one" in *pom.xml) /bin/cp "$one" {asked};; esac; done\n{_MVN}')
    fetch_jars(version)
    text = asked.read_text()
    assert f"<artifactId>kafka_{scala}</artifactId><version>{version}<" in text
    assert text.count("<artifactId>zookeeper</artifactId><version>3.5.9<") == zookeeper


def test_two_processes_at_once_fetch_once(path: Path, tmp_path: Path) -> None:
    _script(path / "mvn", _MVN)
    program = "from kproxy.dev.devcluster.jars import fetch_jars; print(fetch_jars('4.3.1'))"
    both = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = {one.communicate()[0] for one in both}
    assert [one.returncode for one in both] == [0, 0]
    assert len(said) == 1
    assert (path / "mvn.calls").read_text().split() == ["called"]


def test_what_a_killed_process_left_is_removed(path: Path, tmp_path: Path) -> None:
    _script(path / "mvn", _MVN)
    complete = fetch_jars("4.3.1")
    left_over = complete.parent / f".{complete.name}.abc"
    complete.rename(left_over)
    assert fetch_jars("4.3.1") == complete
    assert not left_over.exists()


@pytest.mark.parametrize("version", ["", "4", "latest", "4.3.1/..", "4.3.1\n", "$(x)"])
def test_what_is_no_version_is_refused(path: Path, version: str) -> None:
    with pytest.raises(ConfigError, match="is not a version of Kafka"):
        fetch_jars(version)


def test_a_cache_that_cannot_be_made(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _script(path / "mvn", _MVN)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KPROXY_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(ConfigError, match="set KPROXY_CACHE to another"):
        fetch_jars("4.3.1")


def test_a_java_without_archive_support_is_asked_once(path: Path, tmp_path: Path) -> None:
    _script(path / "java", 'echo called >> "$0.calls"; echo "Unrecognized VM option" >&2; exit 1')
    programs = Programs(java=str(path / "java"), jars=tmp_path / "jars")
    programs.jars.mkdir()
    before = programs.command("kafka-topics")
    make_archive(programs)
    make_archive(programs)
    assert (path / "java.calls").read_text().split() == ["called"]
    assert programs.command("kafka-topics") == before
    assert list(programs.jars.iterdir()) == [programs.archive]


def test_an_archive_is_one_javas(path: Path, tmp_path: Path) -> None:
    _java(path / "java", "17.0.1")
    programs = Programs(java=str(path / "java"), jars=tmp_path)
    assert not any("Archive" in option for option in programs.command("kafka-topics"))
    programs.archive.write_text("classes")
    assert f"-XX:SharedArchiveFile={programs.archive}" in programs.command("kafka-topics")
    _java(tmp_path / "jdk" / "java", "25.0.1")
    another = Programs(java=str(tmp_path / "jdk" / "java"), jars=tmp_path)
    assert not any("Archive" in option for option in another.command("kafka-topics"))


def test_a_cache_that_nobody_may_write_to_is_used_as_it_is(path: Path, tmp_path: Path) -> None:
    _java(path / "java", "17.0.1")
    make_archive(Programs(java=str(path / "java"), jars=tmp_path / "gone" / "jars"))
    assert not (tmp_path / "gone").exists()


def test_tools_by_name_and_by_class() -> None:
    programs = Programs(java="/bin/java", jars=Path("/jars"))
    by_name = programs.command("kafka-topics", "--list")
    assert by_name[0] == "/bin/java"
    assert by_name[-2:] == [TOOLS["kafka-topics"], "--list"]
    assert programs.command(TOOLS["kafka-topics"], "--list") == by_name
    with pytest.raises(ConfigError, match="'kafka-nonsense' is not one of Kafka's tools"):
        programs.command("kafka-nonsense")
