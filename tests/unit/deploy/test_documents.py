"""The documents: every command line is one that kproxy understands, every message one that it says, every link leads
somewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from kproxy.base.errors import ConfigError
from kproxy.protocol.wire.greeting import Greeting, wrong_client, wrong_upstream
from tests.unit.deploy.deployed import CONTAINER_FILE, ROOT, kproxy_commands, shell_lines, try_command

DOCUMENTS = sorted(path for pattern in ("*.md", "deploy/**/*.md", "docs/**/*.md") for path in ROOT.glob(pattern))
FILES = {name: ROOT / "config" / "kproxy.yaml" for name in ("kproxy.yaml", CONTAINER_FILE)} | {
    f"config/{path.name}": path for path in (ROOT / "config").iterdir()
}
TROUBLESHOOTING = ROOT / "docs" / "troubleshooting.md"
# The tables of troubleshooting.md that quote kproxy itself.
OWN_WORDS = (
    "kproxy at start", "Reaching brokers", "Sessions that kproxy ends", "Logging in", "Afterwards",
    "Two upstreams and the switch", "Findings of kproxy migrate switch",
)  # fmt: skip


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


# Messages


@cache
def said() -> tuple[str, ...]:
    """Every text in kproxy's code, with … for what differs."""
    texts = [str(error) for greeting in Greeting for error in (wrong_client(greeting), wrong_upstream(greeting))]
    for path in (ROOT / "kproxy").rglob("*.py"):
        if path.is_relative_to(ROOT / "kproxy" / "advice" / "remedies"):
            continue  # it quotes the others
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                texts.append("".join(str(p.value) if isinstance(p, ast.Constant) else "…" for p in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(re.sub(r"%[sdgr]", "…", node.value))
    for path in (ROOT / "kproxy").rglob("*.java"):
        for statement in path.read_text().split(";"):
            texts.append("…".join(re.findall(r'"([^"\n]+)"', statement)).replace("{}", "…"))
    return tuple(texts)


def is_said(message: str) -> bool:
    pattern = re.compile(".*".join(re.escape(part.strip()) for part in message.split("…")), re.S)
    return any(pattern.search(text) for text in said())


def rows(heading: str) -> Iterator[list[str]]:
    """The cells of the table under a heading, without its head."""
    (section,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", TROUBLESHOOTING.read_text(), re.S | re.M)
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    yield from ([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines)


QUOTES = [
    (heading, message)
    for heading in OWN_WORDS
    for cells in rows(heading)
    for message in re.findall(r"`([^`]+)`", cells[0])
]
REASONS = [
    reason for heading in OWN_WORDS[1:3] for cells in rows(heading) for reason in re.findall(r"`([^`]+)`", cells[1])
]


@pytest.mark.parametrize(("heading", "message"), QUOTES)
def test_kproxy_says_what_the_page_quotes(heading: str, message: str) -> None:
    assert is_said(message), f"no code says: {message}"


@pytest.mark.parametrize("reason", REASONS)
def test_the_reason_is_one_of_kproxy_s(reason: str) -> None:
    peers = [error.reason for greeting in Greeting for error in (wrong_client(greeting), wrong_upstream(greeting))]

    assert reason in peers or reason in said()


def test_a_message_that_nobody_says_is_found() -> None:
    assert len(QUOTES) > 30
    assert not is_said("the broker is … on holiday")


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


def test_every_document_can_be_found_from_the_readme() -> None:
    found = {ROOT / "README.md"}
    while (
        more := {
            (path.parent / str(link).partition("#")[0]).resolve()
            for path, link in (use.values for use in LINKS)
            if path in found and isinstance(path, Path)
        }
        & set(DOCUMENTS) - found
    ):
        found |= more

    assert found == set(DOCUMENTS)
