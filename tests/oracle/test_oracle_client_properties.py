"""A client.properties as kproxy reads it, beside what Kafka's own classes read from the same file."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import javaproperties
import pytest

from kproxy.config.jaas import parse_entry
from kproxy.dev.devcluster.jars import DEFAULT_VERSION, class_path, fetch_jars, find_java

pytestmark = pytest.mark.integration

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
GIVEN = [
    f'sasl.jaas.config={MODULE} required username="alice" password="secret";',
    f"sasl.jaas.config: {MODULE} \\\n   REQUIRED \\\n  username='al\"ice' \\\n password=\"a'b\";",
    f'sasl.jaas.config {MODULE} required p="a\\\\"b\\\\\\\\c\\\\td\\\\101\\\\0\\\\z=;,/*//" q="\\u00e4\\ud83d\\ude00";',
    f'  sasl.jaas.config = {MODULE} sufficient /* one "two */ a=b-c_d.e$f "g"="h" ;   ',
    f'sasl.jaas.config={MODULE} required a="x\\ny";',
    f"sasl.jaas.config={MODULE} required // all of the rest;",
    f"sasl.jaas.config={MODULE} required a=b",
    f"sasl.jaas.config={MODULE} required a=;",
    f"sasl.jaas.config={MODULE} sometimes;",
    "sasl.jaas.config=",
    f'sasl.jaas.config={MODULE} required a="1"; Other required b="2";',
]
PIECES = [
    '"',
    "'",
    "\\\\",
    "\\",
    "=",
    ";",
    " ",
    "a",
    "b1",
    "/*",
    "*/",
    "//",
    "\\n",
    "\\\n ",
    "\\u00e4",
    "#",
    ":",
    "!",
    "required",
]


def made(seed: int) -> str:
    """Mostly an entry, with random text in its quotes, and sometimes beyond."""
    pick = random.Random(seed)
    text = "".join(pick.choice(PIECES) for _ in range(pick.randint(0, 12)))
    quoted = text.replace('"', '\\\\"') if pick.random() < 0.7 else text
    after = pick.choice(["", "", " x=y", " " + text])
    return f'sasl.jaas.config={MODULE} required username="{quoted}"{after};'


def of_java(files: list[Path]) -> list[dict[str, str]]:
    source = Path(__file__).parent / "java" / "ClientProperties.java"
    jars = class_path(fetch_jars(DEFAULT_VERSION))
    command = [find_java(), "-XX:TieredStopAtLevel=1", "-cp", jars, str(source), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pairs = ([pair.split("=") for pair in line.split()] for line in done.stdout.splitlines())
    return [{text_of(key): text_of(value) for key, value in line} for line in pairs]


def text_of(digits: str) -> str:
    return bytes.fromhex(digits).decode("utf-16-be", "surrogatepass")


def of_kproxy(file: Path) -> dict[str, str]:
    try:
        entry = parse_entry(javaproperties.loads(file.read_text("latin-1"))["sasl.jaas.config"].strip())
    except ValueError:
        return {" wrong": ""}
    return {" module": entry.module, **entry.options}


def test_every_entry_is_read_as_kafka_reads_it(tmp_path: Path) -> None:
    """What kproxy refuses, Kafka may take (a quote that its line ends); what kproxy takes, it takes as Kafka does."""
    files = []
    for number, text in enumerate([*GIVEN, *(made(seed) for seed in range(600))]):
        files.append(tmp_path / str(number))
        files[-1].write_text(text + "\n", "latin-1")
    alike = 0
    for file, theirs in zip(files, of_java(files), strict=True):
        ours = of_kproxy(file)
        if " wrong" not in ours:
            assert ours == theirs, file.read_text("latin-1")
            alike += 1
        elif " wrong" not in theirs:
            assert int(file.name) >= len(GIVEN), file.read_text("latin-1")
    assert alike > 250
