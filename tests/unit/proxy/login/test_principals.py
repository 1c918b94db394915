"""The users of certificates: hostile subjects and patterns. test_oracle_principals compares the rest with Kafka's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.base.errors import UpstreamError
from kproxy.config.principalrules import PrincipalRules
from kproxy.proxy.login.principals import NoPrincipal, PrincipalMapper


def user_of(rules: str, subject: str) -> str:
    return PrincipalMapper(PrincipalRules.parse(rules)).user_of(subject)


def test_the_first_rule_that_matches_decides() -> None:
    rules = "RULE:^CN=([^,]+),OU=Services.*$/$1/L, RULE:^CN=([^,]+).*$/$1@other/U"
    assert user_of(rules, "CN=Duke,OU=Services,O=x") == "duke"
    assert user_of(rules, "CN=Duke,O=x") == "DUKE@OTHER"
    assert user_of("DEFAULT", "CN=Duke,O=x") == "CN=Duke,O=x"


@pytest.mark.parametrize(
    ("rules", "subject"),
    [
        ("DEFAULT", ""),
        ("DEFAULT", "CN=" + "a" * 1022),
        ("DEFAULT", "CN=" + "a" * 253),  # a name that is too long
        ("DEFAULT", "CN=a\nb"),
        ("DEFAULT", "CN=a\0"),
        ("RULE:CN=(.*)//", "CN=a"),
        ("RULE:CN=(.*)/$1/", "O=a"),
    ],
)
def test_certificates_of_no_user(rules: str, subject: str) -> None:
    with pytest.raises(NoPrincipal) as raised:
        user_of(rules, subject)
    assert "aaa" not in str(raised.value)


@pytest.mark.parametrize(
    "pattern",
    ["(?:a+)+b", "(?:a|a)*b", "(?:a*)*b", ".*.*.*.*.*.*.*b", "(?:.{1,20}){1,20}b", "(.*?),(.*?),(.*?),(.*?)b"],
)
def test_no_subject_makes_a_pattern_take_for_ever(pattern: str) -> None:
    """Java, and Python's re, would try for longer than this test may take."""
    for subject in ("a" * 1024, "a," * 512):
        with pytest.raises(NoPrincipal):
            user_of(f"RULE:{pattern}/x/", subject)


def test_a_pattern_that_is_too_large() -> None:
    with pytest.raises(UpstreamError, match="client-tls-principal-rules"):
        user_of("RULE:(?:(?:.{1,999}){1,999}){1,999}/x/", "a")


@given(st.text(max_size=300))
def test_any_subject_has_a_user_or_none(subject: str) -> None:
    try:
        user = user_of("RULE:^CN=(.*?),.*$/$1/L,RULE:(.*)=(.*)/$2/U", subject)
    except NoPrincipal:
        return
    assert 0 < len(user) <= 255
