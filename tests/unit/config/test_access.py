"""Access rules: their text, their order, what follows from them; the forms in a file; the table in the documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.base.errors import ConfigError
from kproxy.config import load
from kproxy.config.access import FAMILIES, AccessRule, AccessRules, Extent, NamePattern
from kproxy.config.presentation import show

ROOT = Path(__file__).parents[3]


def rules(*texts: str, read_only: bool = False, groups: tuple[str, ...] = ()) -> AccessRules:
    return AccessRules(read_only, tuple(map(NamePattern, groups)), tuple(map(AccessRule.parse, texts)))


def test_the_first_rule_that_matches_decides() -> None:
    access = rules("deny produce orders-secret", "allow produce orders-* audit", "deny produce *")
    assert access.decide("produce", "orders-1").allows
    assert access.decide("produce", "audit").allows
    assert not access.decide("produce", "orders-secret").allows
    assert access.decide("produce", "other").reason == "rule 'deny produce *'"
    assert access.decide("group", "any").allows


def test_read_only_decides_where_no_rule_matches() -> None:
    access = rules("allow produce audit", read_only=True, groups=("dev-*",))
    assert access.decide("produce", "audit").allows
    assert access.decide("produce", "orders").reason == "--read-only"
    assert access.decide("group", "dev-1").allows
    assert not access.decide("group", "payments-dev-1").allows
    assert not access.decide("admin", "*").allows
    assert access.allowed_names("group") == ("dev-*",)


@pytest.mark.parametrize(
    ("access", "extents"),
    [
        (rules(), "ALL ALL ALL ALL ALL"),
        (rules(read_only=True), "NONE NONE NONE NONE NONE"),
        (rules(read_only=True, groups=("dev-*",)), "NONE NONE SOME NONE NONE"),
        (rules(read_only=True, groups=("dev-*", "*")), "NONE NONE ALL NONE NONE"),
        (rules("allow produce *", read_only=True), "ALL NONE NONE NONE NONE"),
        (rules("deny produce a", "allow produce *", "deny produce *"), "SOME ALL ALL ALL ALL"),
        (rules("deny topic a*", "deny topic *"), "ALL NONE ALL ALL ALL"),
        (rules("deny group a", "allow transaction a"), "ALL ALL SOME ALL ALL"),
    ],
)
def test_the_extent_of_each_family(access: AccessRules, extents: str) -> None:
    assert [access.extent(family) for family in FAMILIES] == [Extent[word] for word in extents.split()]
    for family in FAMILIES:  # and what it says agrees with each decision
        verdicts = {access.decide(family, name).allows for name in ("a", "ab", "b", "dev-1", "other")}
        if access.extent(family) is not Extent.SOME:
            assert verdicts == {access.extent(family) is Extent.ALL}


@pytest.mark.parametrize("name", ["a[b]c", "a]b", "[", "ä"])
def test_only_stars_and_question_marks_are_special(name: str) -> None:
    assert NamePattern.parse(name).matches(name)
    assert NamePattern.parse(f"{name}?").matches(f"{name}x")
    assert not NamePattern.parse("[ab]").matches("a")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("produce orders", "is no rule"),
        ("allow", "'' is no family"),
        ("allow read orders", "reads always pass"),
        ("deny topics orders", "'topics' is no family of APIs; allowed: produce, topic, group, transaction, admin"),
        ("allow produce", "has 0 names"),
        ("deny admin orders", "admin has no names; allowed: deny admin *"),
        ("allow produce " + "x" * 300, "is no pattern of names"),
        ("allow produce " + "x " * 101, "has 101 names"),
    ],
)
def test_mistakes_say_what_is_allowed(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=r"allowed|ACLs") as caught:
        AccessRule.parse(text)
    assert problem in str(caught.value)


def test_a_file_may_have_rules_as_mappings(tmp_path: Path) -> None:
    file = tmp_path / "kproxy.yaml"
    file.write_text(
        "bootstrap-servers: a:1\nread-only: true\nallow-groups: [dev-*, 'x?']\nrules:\n"
        "  - allow: {produce: [orders-*, audit], group: mine}\n  - deny: {topic: '*'}\n  - deny admin *\n"
    )
    (cluster,) = load({}, {}, file).clusters
    expected = ["allow produce orders-* audit", "allow group mine", "deny topic *", "deny admin *"]
    assert [str(rule) for rule in cluster.rules] == expected
    assert cluster.access.read_only
    shown = tmp_path / "shown.yaml"
    shown.write_text(show(load({}, {}, file)))
    assert load({}, {}, shown) == load({}, {}, file)
    by_flags = load({"bootstrap_servers": ("a:1",), "rules": tuple(expected)}, {}, None)
    assert by_flags.clusters[0].rules == cluster.rules
    variables = {"KPROXY_BOOTSTRAP_SERVERS": "a:1", "KPROXY_RULES": ", ".join(expected)}
    assert load({}, variables, None).clusters[0].rules == cluster.rules


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("rules: [{allow: produce}]", "rules[0]: has no family"),
        ("rules: [{allow: {produce: {a: b}}}]", "rules[0]: has no names"),
        ("rules: [{allow: {produce: []}}]", "rules[0]: has no names"),
        ("rules: [{permit: {produce: a}}]", "'permit produce a' is no rule"),
        ("rules: [{allow: {read: a}}]", "reads always pass"),
        ("allow-groups: dev-*", "is an exception to read-only, which is off"),
        ("read-only: perhaps", "neither true nor false"),
    ],
)
def test_mistakes_in_a_file_name_their_places(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "kproxy.yaml"
    file.write_text(f"bootstrap-servers: a:1\n{text}\n")
    with pytest.raises(ConfigError) as caught:
        load({}, {}, file)
    (line,) = caught.value.problems
    assert problem in line
    assert ":2:" in line


def test_rules_of_users() -> None:
    access = rules("user=alice user=svc-* allow produce orders-*", "deny produce *", "user=bob deny group *")
    assert access.families_by_user == {"produce", "group"}
    assert not access.forbids_nothing
    for user, produces, joins in (
        ("alice", True, True),
        ("svc-1", True, True),
        ("bob", False, False),
        ("", False, True),
    ):
        of_user = access.for_user(user)
        assert of_user.decide("produce", "orders-1").allows is produces
        assert of_user.decide("group", "any").allows is joins
    assert access.for_user("alice").decide("produce", "orders-1").reason.startswith("rule 'user=alice user=svc-*")
    assert [str(rule) for rule in access.rules] == [str(AccessRule.parse(str(rule))) for rule in access.rules]


def test_users_in_a_file(tmp_path: Path) -> None:
    text = """\
bootstrap-servers: a
client-sasl: SCRAM-SHA-512
users-file: users.yaml
rules:
  - users: [alice, svc-*]
    allow: {produce: orders-*, group: dev-*}
  - allow: {topic: x}
    users: bob
  - user=carol deny admin *
"""
    file = tmp_path / "k.yaml"
    file.write_text(text)
    assert [str(rule) for rule in load({}, {}, file).clusters[0].rules] == [
        "user=alice user=svc-* allow produce orders-*",
        "user=alice user=svc-* allow group dev-*",
        "user=bob allow topic x",
        "user=carol deny admin *",
    ]
    for wrong, problem in (
        (text.replace("users: bob", "users: []"), "has no users"),
        (text.replace("users: bob", "users: [a b]"), "is no rule"),
        (text.replace("client-sasl: SCRAM-SHA-512\nusers-file: users.yaml\n", ""), "clients do not log in here"),
        (text.replace("user=carol", "user="), "is no pattern of names"),
    ):
        file.write_text(wrong)
        with pytest.raises(ConfigError, match=problem):
            load({}, {}, file)
