"""The Dockerfile, read."""

from __future__ import annotations

import json
import re

from tests.unit.deploy.deployed import ROOT

DOCKERFILE = ROOT / "Dockerfile"


def instructions(text: str) -> list[tuple[str, str]]:
    """(INSTRUCTION, arguments), without comments, continued lines joined."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    pairs = (line.strip().partition(" ") for line in joined.splitlines() if line.strip())
    return [(word.upper(), rest.strip()) for word, _, rest in pairs]


def stages() -> list[list[tuple[str, str]]]:
    """The instructions of each stage, FROM first."""
    found: list[list[tuple[str, str]]] = []
    for word, rest in instructions(DOCKERFILE.read_text()):
        if word == "FROM":
            found.append([])
        found[-1].append((word, rest))
    return found


def of(stage: list[tuple[str, str]], word: str) -> list[str]:
    return [rest for name, rest in stage if name == word]


def image_env() -> dict[str, str]:
    return dict(re.findall(r"(\w+)=(\S+)", " ".join(of(stages()[-1], "ENV"))))


def healthcheck() -> list[str]:
    (check,) = of(stages()[-1], "HEALTHCHECK")
    command = json.loads(check[check.index("[") :])
    assert isinstance(command, list)
    return command


def kproxy_env() -> dict[str, str]:
    return {name: value for name, value in image_env().items() if name.startswith("KPROXY_")}
