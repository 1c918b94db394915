"""The documents: every command line is one that kproxy understands, every message one that it says, every link leads
somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kproxy.base.errors import ConfigError
from tests.unit.deploy.deployed import CONTAINER_FILE, DOCUMENTS, ROOT, kproxy_commands, shell_lines, try_command

FILES = {name: ROOT / "config" / "kproxy.yaml" for name in ("kproxy.yaml", CONTAINER_FILE)} | {
    name: path for path in (ROOT / "config").iterdir() for name in (path.name, f"config/{path.name}")
}


def commands(text: str) -> Iterator[list[str]]:
    """Each use of kproxy in shell blocks and in code spans; HOST:PORT made an address."""
    spans = re.findall(
        r"`(kproxy (?:run|exec|wait|explain|config|demo|devcluster)\b[^`…\[]*)`",
        re.sub(r"```.*?```", "", text, flags=re.S),
    )
    comments = re.findall(r"^#\s{2,}((?:docker run|kproxy) .*)$", text, re.M)
    # Text that only names a command asks for no more than that there is one.
    named = [f"{span} --help" if len(span.split()) == 2 else " ".join(span.split()) for span in spans]
    for line in (*shell_lines(text), *comments, *named):
        for words in kproxy_commands(line):
            yield [word.replace("HOST:PORT", "kafka:9092").replace("FILE", "kproxy.yaml") for word in words]


def identify(value: object) -> str:
    return (
        str(value.relative_to(ROOT)) if isinstance(value, Path) else " ".join(value) if isinstance(value, list) else ""
    )


USES = [
    pytest.param(words, id=f"{identify(path)}: {identify(words)}")
    for path in (*DOCUMENTS, ROOT / "Dockerfile")
    for words in commands(path.read_text())
]


def test_the_commands_are_found() -> None:
    line = (
        "sudo /opt/bin/kproxy config check f.yaml && kproxy run -b a:1 & docker run --rm kproxy:1 run -b b:2 # kproxy"
    )

    assert list(kproxy_commands(line)) == [["config", "check", "f.yaml"], ["run", "-b", "a:1"], ["run", "-b", "b:2"]]
    assert len(USES) > 15
    for path in ("README.md", "deploy/README.md", "Dockerfile"):
        assert any(str(use.id).startswith(f"{path}:") for use in USES), path


@pytest.mark.parametrize("words", USES)
def test_kproxy_understands_the_command(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the profile that the documents have."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    profile = tmp_path / "kproxy" / "staging.yaml"
    profile.parent.mkdir()
    profile.write_text("bootstrap-servers: kafka.example:9092\n")
    try_command(words, FILES)


@pytest.mark.parametrize("words", [["run", "-b", "a", "--no-such-flag"], ["run", "-b", "a", "--map", "x"], ["rum"]])
def test_a_wrong_command_is_found(words: list[str]) -> None:
    with pytest.raises((ConfigError, click.ClickException, AssertionError), match=r"no-such-flag|not a map|no command"):
        try_command(words, FILES)


# Jobs


JOBS = [
    pytest.param(block, id=f"{identify(path)}-{at}")
    for path in DOCUMENTS
    for at, block in enumerate(re.findall(r"^```python\n(.*?)^```", path.read_text(), flags=re.S | re.M))
    if 'format("kafka")' in block
]


@pytest.mark.parametrize("block", JOBS)
def test_a_job_for_spark_brings_spark_s_connector(block: str) -> None:
    """Without it a job ends in "Failed to find data source: kafka"."""
    compile(block, "the job", "exec")
    assert "org.apache.spark:spark-sql-kafka-0-10_2.13:" in block
    assert "plugin(packages=[connector])" in block


# Links


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", path.read_text(), flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


LINKS = [
    pytest.param(path, link, id=f"{identify(path)}: {link}")
    for path in DOCUMENTS
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", path.read_text(), flags=re.S))
    if "://" not in link
]


@pytest.mark.parametrize(("path", "link"), LINKS)
def test_the_link_leads_somewhere(path: Path, link: str) -> None:
    file, _, anchor = link.partition("#")
    target = (path.parent / file).resolve() if file else path

    assert target.exists()
    if anchor:
        assert anchor in anchors(target)


PATHS = [
    pytest.param(path, id=f"{identify(document)}: {path}")
    for document in DOCUMENTS
    for path in sorted(set(re.findall(r"`((?:bench|config|deploy|docs|kproxy|tests)/[\w./-]+)`", document.read_text())))
]


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_a_document_names_exists(path: str) -> None:
    """A module that moves takes its path in the documents along."""
    assert (ROOT / path).exists()


def reached(document: Path, clicks: int) -> set[Path]:
    """The documents to which so many links lead, one after the other."""
    found = {document}
    for _ in range(clicks):
        found |= {
            (path.parent / str(link).partition("#")[0]).resolve()
            for path, link in (use.values for use in LINKS)
            if path in found and isinstance(path, Path)
        } & set(DOCUMENTS)
    return found


def test_every_document_is_two_clicks_from_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    assert index in reached(ROOT / "README.md", 1)
    assert reached(index, 2) == set(DOCUMENTS)


# The first page


def test_the_readme_is_read_in_a_minute() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 130
    assert {"make demo", "make test"} <= {line.partition("#")[0].strip() for line in shell_lines(text)}


def test_a_place_of_a_kafka_has_one_command() -> None:
    section = (ROOT / "README.md").read_text().partition("## Where is your Kafka?")[2].partition("\n\n| ")[2]
    rows = [line.split(" | ") for line in section.partition("\n\n")[0].splitlines()[2:]]
    assert len(rows) >= 7
    assert all(re.fullmatch(r"`kproxy [^`]+`", command) for _, command, _ in rows)
