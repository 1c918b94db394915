"""What is refused of the options with which clients log in at kproxy."""

from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.base.errors import ConfigError
from kproxy.config.loader import load

BASIS = "bootstrap-servers: kafka.example:9092\n"
PUBLIC = "listen: 0.0.0.0:19092\nadvertise: kproxy.example\n"
TOKENS = BASIS + "client-sasl: OAUTHBEARER\nclient-oauth-issuer: https://login.example\nclient-oauth-audience: kafka\n"


def problems(text: str, tmp_path: Path) -> list[str]:
    """Return the text of each mistake of a configuration."""
    file = tmp_path / "kproxy.yaml"
    file.write_text(text)
    try:
        load({}, {}, file)
    except ConfigError as error:
        return [str(problem) for problem in error.problems]
    return []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"{BASIS}client-sasl: SCRAM-SHA-512\n", "SCRAM-SHA-512 needs users with passwords"),
        (f"{BASIS}{PUBLIC}client-sasl: PLAIN\nusers-file: users.yaml\n", "PLAIN would send passwords in the clear"),
        (f"{TOKENS}{PUBLIC}client-oauth-jwks-file: keys.json\n", "OAUTHBEARER would send tokens in the clear"),
        (TOKENS, "OAUTHBEARER needs the keys of the OIDC server"),
        (f"{TOKENS}client-oauth-jwks-file: k\nclient-oauth-jwks-url: https://login.example/k\n", "cannot be combined"),
        (f"{TOKENS}client-oauth-jwks-url: http://login.example/keys\n", "could replace keys that come without TLS"),
        (f"{TOKENS}client-oauth-jwks-url: http://127.0.0.1.login.example/keys\n", "could replace keys"),
        (f"{BASIS}client-sasl: OAUTHBEARER\nclient-oauth-jwks-file: k\n", "together with client-oauth-issuer"),
    ],
)
def test_what_is_refused(text: str, says: str, tmp_path: Path) -> None:
    found = problems(text, tmp_path)
    assert any(says in problem for problem in found), found
    assert all("allowed:" in problem for problem in found)


@pytest.mark.parametrize(
    "text",
    [
        f"{BASIS}client-sasl: [SCRAM-SHA-512, PLAIN]\nusers-file: users.yaml\n",
        f"{BASIS}{PUBLIC}client-sasl: PLAIN\nusers-file: users.yaml\nclient-plain-without-tls: true\n",
        f"{TOKENS}client-oauth-jwks-url: https://login.example/keys\n",
        f"{TOKENS}client-oauth-jwks-url: http://localhost:8080/keys\n",
        f"{TOKENS}client-oauth-jwks-url: http://[::1]:8080/keys\n",
    ],
)
def test_what_is_allowed(text: str, tmp_path: Path) -> None:
    assert problems(text, tmp_path) == []
