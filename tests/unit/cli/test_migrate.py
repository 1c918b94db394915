"""`kproxy migrate` is there, and costs those nothing who do not want it."""

from __future__ import annotations

import json
import subprocess
import sys

from click.testing import CliRunner

from kproxy.cli.group import kproxy


def test_its_commands_have_help() -> None:
    told = CliRunner().invoke(kproxy, ["migrate", "--help"]).output
    for command in ("plan", "prepare", "undo"):
        assert f"\n  {command}" in told
        assert "FILE is the YAML file" in CliRunner().invoke(kproxy, ["migrate", command, "--help"]).output


def test_the_schema_of_its_file() -> None:
    schema = json.loads(CliRunner().invoke(kproxy, ["migrate", "schema"]).output)
    assert schema["required"] == ["source", "target"]


def test_others_do_not_import_it() -> None:
    code = (
        "import sys; from kproxy.cli import invoke; code = invoke(['--help']); "
        "heavy = ('kproxy.migrate', 'kproxy.migrate.copier', 'kafka', 'pyspark', 'cramjam', 'xxhash'); "
        "print(code, [name for name in sys.modules if name.startswith(heavy)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "0 []"
    assert "migrate  " in done.stdout
