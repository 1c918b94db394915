"""The rules that make users of subjects: what kproxy reads. test_oracle_principals compares users with Kafka's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.config.principalrules import PrincipalRule, PrincipalRules


def test_rules_are_separated_by_commas() -> None:
    rules = PrincipalRules.parse(r" RULE:^CN=([^,]+),.*$/$1@$9\$/L , DEFAULT ")
    assert rules.rules == (
        PrincipalRule("^CN=([^,]+),.*$", (1, "@", "$", "9", "$"), "L"),
        PrincipalRule(None),
    )
    assert str(rules) == r"RULE:^CN=([^,]+),.*$/$1@$9\$/L , DEFAULT"
    assert rules.has_patterns
    assert not PrincipalRules.parse("DEFAULT").has_patterns


@pytest.mark.parametrize(
    "text",
    [
        *("", "default", "RULE:a/b", "RULE:a", "CN=.*", "RULE:a/b/c/d/", "RULE:" + "a" * 5000 + "/b/"),
        *("RULE:(a/b/", "RULE:a)/b/", "RULE:a/$1/", "RULE:(a)/$/", "RULE:(a)/$x/", "RULE:(a)/$2$3/"),
        # What RE2 does not match, or not as Java does.
        *(r"RULE:(a)\1/b/", "RULE:a(?=b)/b/", "RULE:a*+/b/", "RULE:(?i)a/b/", r"RULE:\bA/b/", r"RULE:\p{L}/b/"),
        *("RULE:(?<n>a)/b/", "RULE:[a&&[b]]/b/", "RULE:[[a]]/b/", "RULE:[]a]/b/", "RULE:(a*)*/b/", "RULE:(|a)+/b/"),
        *(r"RULE:\Qa\E/b/", "RULE:(?>a)/b/", "RULE:a**/b/", "RULE:(?:(b?))+/b/"),
    ],
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="allowed: "):
        PrincipalRules.parse(text)


@given(st.text(alphabet="RULE:/\\$()[]{}*+?|.,a1DEFAULT ", max_size=40))
def test_any_text_gives_rules_or_says_what_is_allowed(text: str) -> None:
    problem = ""
    try:
        rules = PrincipalRules.parse(text)
    except ValueError as error:
        problem = str(error)
    assert "allowed: " in problem if problem else PrincipalRules.parse(str(rules)) == rules
