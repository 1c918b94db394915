"""What the tests of this folder share: the files, and kproxy's own command line to read what they say."""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from kproxy.base.address import Address
from kproxy.cli.flags import given_options
from kproxy.cli.group import kproxy
from kproxy.config import Config, load

ROOT = Path(__file__).parents[3]
DOCUMENTS = sorted(path for pattern in ("*.md", "deploy/**/*.md", "docs/**/*.md") for path in ROOT.glob(pattern))
IMAGE_FILE = ROOT / "deploy" / "image.yaml"
# Parameters of `kproxy run` and `kproxy exec` that are no options of kproxy.
NO_OPTIONS = ("command", "servers", "timeout")
CONTAINER_FILE = "/etc/kproxy/kproxy.yaml"
# The security of a pod and its container together.
UNPRIVILEGED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "runAsGroup": 65532,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


def run_config(
    words: Sequence[str], env: Mapping[str, str] | None = None, files: Mapping[str, Path] | None = None
) -> Config:
    """The configuration with which `kproxy run …` or `exec …` would run. `files`: where a path really is."""
    assert words[0] in ("run", "exec"), words
    command = kproxy.get_command(click.Context(kproxy), words[0])
    assert command is not None
    with command.make_context(words[0], list(words[1:])) as context:
        options = {name: value for name, value in context.params.items() if name not in NO_OPTIONS}
        file, flags = given_options(options, context.params["servers"])
    here = {CONTAINER_FILE: IMAGE_FILE, **(files or {})}
    if "client_config" in flags:
        flags["client_config"] = str(here.get(str(flags["client_config"]), flags["client_config"]))
    env = {
        name: str(here.get(value, value)) if name == "KPROXY_CONFIG" else value for name, value in (env or {}).items()
    }
    return load(flags, env, here.get(str(file), file))


def config_of_text(text: str, words: Sequence[str] = ("run", "-c", CONTAINER_FILE)) -> Config:
    """The configuration of `kproxy run -c FILE` with a FILE of this text."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "kproxy.yaml")
        path.write_text(text)
        return run_config(words, files={CONTAINER_FILE: path})


def all_ports(config: Config) -> set[int]:
    """Every port that clients may be told to use: the bootstrap listeners' and those of the nodes."""
    ports: set[int] = set()
    for cluster in config.clusters:
        window = cluster.effective_node_ports()
        ports |= {cluster.listen.port, *range(window.first, window.last + 1)}
    return ports


def try_command(words: Sequence[str], files: Mapping[str, Path]) -> None:
    """Parse a `kproxy …` command as the real one would, without running it; raises what that raises."""
    if words[0] in ("run", "exec") and "--help" not in words:
        run_config(words, files=files)
        return
    command: click.Command = kproxy
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        found = command.get_command(click.Context(command), name)
        assert found is not None, f"kproxy has no command {name}"
        command = found
    only_help = "--help" in rest
    rest = [word for word in rest if word != "--help"]
    with command.make_context(command.name, rest, resilient_parsing=only_help) as context:
        file = context.params.get("file")
    if isinstance(file, Path) and words[0] != "migrate":  # its file is another one; docs/migration.md shows one
        load({}, {}, files.get(str(file), file))


def kproxy_commands(line: str) -> Iterator[list[str]]:
    """The words after `kproxy` of each use of it in a line of shell, those after its image in `docker run` too."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;>()")
    lexer.whitespace_split = True
    for is_separator, group in groupby(lexer, key=lambda word: set(word) <= set("|&;>()")):
        words = list(group)
        if not is_separator and words[0] == "sudo":
            words = words[1:]
        if is_separator or not words:
            continue
        if Path(words[0]).name == "kproxy":
            yield words[1:]
        elif words[:2] == ["docker", "run"]:
            image = next((at for at, word in enumerate(words) if re.fullmatch(r"kproxy(:\S+)?", word)), len(words))
            if words[image + 1 :]:
                yield words[image + 1 :]


def shell_lines(markdown: str) -> Iterator[str]:
    """The lines of the fenced `sh` blocks, continued ones joined."""
    for block in re.findall(r"^ *```sh\n(.*?)^ *```", markdown, re.S | re.M):
        yield from (line.strip() for line in re.sub(r"\\\n\s*", "", block).splitlines() if line.strip())


def asked_within(probe: Mapping[str, Any], admin: Address) -> str:
    """The page that an `exec` probe asks for, with Python alone, where the admin endpoint is."""
    *python, program = probe["exec"]["command"]
    assert python == ["python", "-IS", "-c"]
    compile(program, "the probe", "exec")
    found = re.fullmatch(
        r"from http\.client import HTTPConnection; "
        r"c = HTTPConnection\('([\d.]+)', (\d+), timeout=(\d+)\); c\.request\('GET', '(/\w+)'\); "
        r"raise SystemExit\(c\.getresponse\(\)\.status != 200\)",
        program,
    )
    assert found, program
    assert Address(found[1], int(found[2])) == admin
    assert int(found[3]) < probe["timeoutSeconds"]
    return found[4]
