"""The user of a client's certificate, beside what Java and Kafka's SslPrincipalMapper make of the same certificate."""

from __future__ import annotations

import random
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from kproxy.config.principalrules import PrincipalRules
from kproxy.dev.devcluster.jars import DEFAULT_VERSION, class_path, fetch_jars, find_java
from kproxy.net.tls.subject import read_subject
from kproxy.proxy.login.principals import NoPrincipal, PrincipalMapper

pytestmark = pytest.mark.integration

SUBJECT = "CN=Duke,OU=ServiceUsers,O=Org,L=City,ST=CA,C=US"
# Those of Kafka's documentation and of its SslPrincipalMapperTest among them.
RULES = [
    "DEFAULT",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/",
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/, DEFAULT",
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U ,\nDEFAULT",
    "RULE:^CN=([^,ADEFLTU,]+)(,.*|$)/$1/",
    r"RULE:^CN=([^,ABCD\/]+)(,.*|$)/$1/,DEFAULT",
    "RULE:(.*)/X/",
    "RULE:^CN=(.*?),.*$/$1@$4/",
    "RULE:^CN=(.*?),.*$/$1@$14/",
    "RULE:^CN=(.*?),.*$/$3$4/",
    "RULE:^CN=([^,]+),(.*)$/$2-$1-$0/L",
    r"RULE:^CN=(.*?),.*$/a\$1\\b/",
    "RULE:CN=(\\w+),OU=(\\w*),.*/$2.$1/,RULE:.*/other/",
    "RULE:^CN=(.*?),(OU|DC)=.*(,X=(.*))?$/$1-$4/",
    "RULE:x/y/,RULE:z/a/",
    "RULE:CN=.*/$1/",
    "RULE:CN=(.*)/$/",
    "RULE:^CN=(.*)$/$1",
    "default",
    "RULE:a/b/c/d/",
    "RULE:/x/",
    "",
]
SUBJECTS = [SUBJECT, "CN=duke", "CN=Jürgen Ä\\, İ,DC=x", "cn=a,ou=b,dc=c,dc=d", "CN=a/b,O=c", "O=Org"]
PIECES = [
    *(
        "CN=",
        "OU=",
        ",",
        "a",
        "b",
        "B",
        "ö",
        ".",
        ".*",
        ".*?",
        "(",
        ")",
        "(?:",
        "|",
        "[^,]",
        "[a-c]+",
        "\\w",
        "\\d*",
        "+",
    ),
    *("?", "*", "{2}", "{1,3}?", "^", "$", "\\,", "\\.", "\\/", "[\\w.-]*", "(a|b)*", "(a*)", "(.*)", "(b?)+"),
]
REPLACEMENTS = ["$1", "$2", "$0", "$1$2", "x$1y", "$10", "\\$1", "$9$8", "", "a b", "$", "$a", "\\\\"]
ALPHABET = ["CN=", "OU=", ",", "a", "b", "B", "ö", "c", ".", "1", "\\", "=", " ", "/"]

# Encoded types: those of RFC 2253, and emailAddress, serialNumber, title, dnQualifier, surname and 2.999.
TYPES = [
    *("550403", "550406", "550407", "550408", "550409", "55040a", "55040b", "0992268993f22c640119"),
    *("0992268993f22c640101", "2a864886f70d010901", "550405", "55040c", "55042e", "550404", "883703"),
]
STRINGS = [
    *((0x0C, "utf-8"), (0x0C, "utf-8"), (0x13, "latin-1"), (0x14, "latin-1"), (0x16, "latin-1"), (0x1B, "latin-1")),
    *((0x1E, "utf-16-be"), (0x1C, "utf-32-be"), (0x12, "latin-1")),
]
CHARACTERS = [*',=+<>#;"\\ \r\n\0aZ9.äß€\t-/', "\U0001f600"]


def drawn(seed: int) -> tuple[str, str]:
    pick = random.Random(seed)
    pattern = "".join(pick.choice(PIECES) for _ in range(pick.randint(1, 6)))
    rule = f"RULE:{pattern}/{pick.choice(REPLACEMENTS)}/{pick.choice(['', '', 'L', 'U'])}"
    rules = rule + pick.choice(["", "", ",DEFAULT", ", RULE:.*/rest/"])
    return rules, "".join(pick.choice(ALPHABET) for _ in range(pick.randint(1, 8)))


def of_java(lines: Sequence[str]) -> list[str | None]:
    source = Path(__file__).parent / "java" / "Principals.java"
    command = [find_java(), "-cp", class_path(fetch_jars(DEFAULT_VERSION)), str(source)]
    done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [None if line == "!" else bytes.fromhex(line).decode() for line in done.stdout.splitlines()]


def element(tag: int, content: bytes) -> bytes:
    """Encode an element of a certificate (DER)."""
    size = len(content)
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes((tag, size) if size < 128 else (tag, 0x80 | len(length), *length)) + content


def drawn_name(seed: int) -> bytes:
    """Return an encoded X.500 name, of types and strings that Java knows, and of others."""
    pick = random.Random(seed)
    parts = []
    for _ in range(pick.randint(0, 4)):
        attributes = []
        for _ in range(pick.choice((1, 1, 1, 2, 3))):
            text = "".join(pick.choice(CHARACTERS) for _ in range(pick.choice((0, 1, 2, 3, 5, 150))))
            tag, encoding = pick.choice(STRINGS)
            value = element(tag, text.encode(encoding, "replace"))
            attributes.append(element(0x30, element(0x06, bytes.fromhex(pick.choice(TYPES))) + value))
        parts.append(element(0x31, b"".join(attributes)))
    return element(0x30, b"".join(parts))


def test_subjects_are_as_java_prints_them() -> None:
    names = [drawn_name(seed) for seed in range(5_000)]
    empty = element(0x30, b"")
    head = element(0xA0, b"\2\1\2") + element(0x02, b"\1") + 3 * empty
    read = [read_subject(element(0x30, element(0x30, head + name))) for name in names]
    assert read == of_java([f"S {name.hex()}" for name in names])


def test_rules_make_the_users_that_kafka_makes() -> None:
    """What kproxy accepts means the same; what it refuses, it refuses before any client comes."""
    cases = [(rules, subject) for rules in RULES for subject in SUBJECTS] + [drawn(seed) for seed in range(30_000)]
    expected = of_java([f"R {rules.encode().hex()} {subject.encode().hex()}" for rules, subject in cases])
    seen: Counter[str] = Counter()
    differing = []
    for (rules, subject), wanted in zip(cases, expected, strict=True):
        try:
            mapper = PrincipalMapper(PrincipalRules.parse(rules))
        except Exception as error:  # noqa: BLE001
            seen[f"refused: {type(error).__name__}"] += 1
            continue
        try:
            user = mapper.user_of(subject)
        except NoPrincipal:
            user = ""
        seen["user" if user else "no user"] += 1
        if user != (wanted or ""):
            differing.append((rules, subject, wanted, user))
    assert differing == []
    assert min(seen["user"], seen["no user"]) > 1000, seen
    assert all(PrincipalRules.parse(rules).rules for rules in RULES[:10])
