"""docs/lint.md has each rule, with the words of the code, and each rule has a broken set-up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kproxy.advice.lint import fixes
from kproxy.advice.lint.filekinds import FileKind
from kproxy.advice.lint.linter import LintOptions
from kproxy.advice.lint.rules.table import RULES
from kproxy.cli import invoke
from kproxy.cli import lint as cli
from tests.unit.advice.lint import broken, brokenfiles
from tests.unit.advice.lint.broken import APP, PLAIN
from tests.unit.advice.lint.helpers import printed, report

PAGE = (Path(__file__).parents[4] / "docs" / "lint.md").read_text()
# These need more than one text: see test_hostile.py and test_files.py.
ELSEWHERE = {"syntax", "byte-order-mark", "canonical-host-name", "operator-authentication", "operator-version"}


def test_the_page_has_each_rule() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \| (error|warning|note) \| (.+) \|$", PAGE, re.MULTILINE)
    assert rows == [(rule.id, rule.severity.value, rule.why) for rule in RULES.values()]


def test_the_page_shows_what_is_printed() -> None:
    before = report({"docker-compose.yml": PLAIN + APP})
    shown = printed(before) + printed(fixes.fix(before, LintOptions()).after)
    finding, table = re.findall(r"\n\n```\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert finding in shown
    assert table in shown


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_is_explained(rule: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["lint", "--explain", rule]) == 0
    lines = capsys.readouterr().out.splitlines()
    own = RULES[rule]
    assert lines[0] == f"{rule} ({own.severity})"
    assert own.why in " ".join(lines)
    assert own.wrong
    assert own.right
    assert own.wrong != own.right
    assert {line[9:] for line in lines} >= {*own.wrong, *own.right}


def test_the_command_has_each_kind() -> None:
    assert set(cli._KINDS) == {kind.value for kind in FileKind}


def test_the_page_has_each_kind() -> None:
    assert set(re.findall(r"^\| `(\w+)` \| (?!error|warning|note)", PAGE, re.MULTILINE)) == {
        kind.value for kind in FileKind
    }


@pytest.mark.parametrize("rule", sorted(set(RULES) - ELSEWHERE))
def test_each_rule_has_a_case(rule: str) -> None:
    assert any(case.rule == rule for case in (*broken.CASES, *brokenfiles.CASES))
