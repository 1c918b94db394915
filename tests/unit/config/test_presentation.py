"""What people and editors are shown: the effective configuration, the schema, the documentation, the examples."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from kproxy.base.errors import ConfigError
from kproxy.config import ClusterConfig, Config, kinds, load, read
from kproxy.config.declarations import LIMITS, Options, option
from kproxy.config.hop import mask
from kproxy.config.options import all_settings
from kproxy.config.presentation import json_schema, lines, reference_table, show

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "config").glob("*.yaml"))
EVERYTHING: dict[str, object] = {
    "name": "no", "bootstrap_servers": ("a:1", "[::1]", "1.2.3.4:5"), "cluster_id": "rkB5_x-Q", "listen": "[::1]:1000",
    "advertise": "proxy:29000", "node_ports": "20000-20010", "connect_timeout": 0.25, "retire_after": "90m",
    "map": ("kafka0:29092=localhost:9092", "*.x=y:{port}", "node:2=[::1]:7"), "max_connections": "3",
    "via": ("ssh://me@bastion", "http://proxy:3128"),
    "max_request_size": "1000001", "admin": "off", "ready_requires": "all", "drain_timeout": "1.5",
    "reuse_port": True, "admin_host": ("kproxy.example", "*"), "admin_token_file": "/run/secrets/admin",
    "admin_require_token_for_reads": True, "admin_tls_cert": "admin.pem", "admin_tls_key": "admin.key",
    "exit_with": ("ended", "http://localhost:4040"),
    "log_format": "json", "log_level": "debug", "tls": "yes", "tls_ca": "ca.p12", "tls_cert": "me.pem",
    "tls_key": "me.key", "tls_server_name": "*", "tls_insecure": "no", "client_tls_cert": "kproxy.pem",
    "client_tls_key": "kproxy.key", "client_tls_ca": "clients.pem",
    "sasl": "OAUTHBEARER", "sasl_username": "me",
    "sasl_password_command": "pass show 'a b'", "oauth_token_url": "https://idp.example/token", "oauth_scope": "a b",
    "oauth_ca": "/ca.pem", "oauth_extensions": ("a=b", "c=d e"), "kerberos_service": "broker",
}  # fmt: skip


@pytest.mark.parametrize("flags", [EVERYTHING, {"bootstrap_servers": "a"}], ids=["everything", "defaults"])
@pytest.mark.parametrize("with_origins", [True, False])
def test_what_is_shown_can_be_loaded(flags: dict[str, object], with_origins: bool, tmp_path: Path) -> None:
    loaded = read(flags, {}, None)
    file = tmp_path / "shown.yaml"
    file.write_text(show(loaded.config, loaded.origins if with_origins else None))
    assert load({}, {}, file) == loaded.config
    jsonschema.validate(yaml.safe_load(file.read_text()), json_schema())


def test_the_whole_of_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.yaml").write_text("admin: off\nclusters:\n- bootstrap-servers: [a]\n  map: ['*.x=y']\n")
    loaded = read({"listen": "[::1]:1"}, {"KPROXY_LOG_LEVEL": "error"}, Path("k.yaml"))
    assert show(loaded.config, loaded.origins) == (
        "admin: off  # k.yaml:1\n"
        "# admin-tls-cert: plain HTTP\n"
        "# admin-tls-key: in the file of admin-tls-cert\n"
        "# admin-tls-key-password: none\n"
        "# admin-host: none\n"
        "admin-quit: false  # default\n"
        "admin-reload: false  # default\n"
        "# admin-token: none\n"
        "# admin-token-file: none\n"
        "admin-require-token-for-reads: false  # default\n"
        "ready-requires: one  # default\n"
        "# exit-with: none\n"
        "drain-timeout: 10s  # default\n"
        "# state-dir: none\n"
        "watch-config: false  # default\n"
        "reuse-port: false  # default\n"
        "log-format: auto  # default\n"
        "log-level: error  # KPROXY_LOG_LEVEL\n"
        "clusters:\n"
        "  - name: default  # default\n"
        "    bootstrap-servers:  # k.yaml:3\n"
        "      - a:9092\n"
        "    # cluster-id: the id of the first bootstrap server that answers\n"
        "    accept-new-cluster-after: off  # default\n"
        "    # client-config: none\n"
        '    listen: "[::1]:1"  # --listen\n'
        "    # advertise: the host of listen\n"
        "    # node-ports: the 200 ports after listen\n"
        "    # sni: each node has a port\n"
        "    # forward: none\n"
        "    map:  # k.yaml:4\n"
        '      - "*.x=y"\n'
        "    # forward-command: none\n"
        "    # via: none\n"
        "    connect-timeout: 5s  # default\n"
        "    tls: false  # default\n"
        "    # tls-ca: the system's\n"
        "    # tls-ca-password: none\n"
        "    # tls-cert: none\n"
        "    # tls-key: in the file of tls-cert\n"
        "    # tls-key-password: none\n"
        "    # tls-server-name: the advertised host; for a bootstrap server, its host\n"
        "    tls-insecure: false  # default\n"
        "    # client-tls-cert: clients connect without TLS\n"
        "    # client-tls-key: in the file of client-tls-cert\n"
        "    # client-tls-key-password: none\n"
        "    # client-tls-ca: no client certificate is required\n"
        "    # sasl: clients log in themselves\n"
        "    # sasl-username: none\n"
        "    # sasl-password: none\n"
        "    # sasl-password-file: none\n"
        "    # sasl-password-command: none\n"
        "    # oauth-token-url: none\n"
        "    # oauth-scope: none\n"
        "    # oauth-ca: the system's\n"
        "    # oauth-extensions: none\n"
        "    # oauth-token-file: none\n"
        "    # oauth-token-command: none\n"
        "    kerberos-service: kafka  # default\n"
        "    # kerberos-keytab: the ticket cache (kinit)\n"
        "    # aws-profile: the credentials that the AWS SDK finds\n"
        "    login-as: kproxy  # default\n"
        "    # credentials-command: none\n"
        "    credentials-lifetime: 5m  # default\n"
        "    # default-login: none\n"
        "    # client-sasl: none\n"
        "    # client-tls-principal-rules: none\n"
        "    # users-file: none\n"
        "    client-login-lifetime: off  # default\n"
        "    client-plain-without-tls: false  # default\n"
        "    # client-oauth-jwks-url: none\n"
        "    # client-oauth-jwks-file: none\n"
        "    # client-oauth-ca: the system's\n"
        "    # client-oauth-issuer: none\n"
        "    # client-oauth-audience: none\n"
        "    client-oauth-user-claim: sub  # default\n"
        "    read-only: false  # default\n"
        "    # allow-groups: none\n"
        "    # rules: none\n"
        "    retire-after: 10m  # default\n"
        "    max-connections: 10000  # default\n"
        "    max-request-size: 100MiB  # default\n"
    )


@dataclass(frozen=True, kw_only=True)
class WithSecrets(Options):
    """Options with secrets; kproxy itself has none yet."""

    password: str = option(LIMITS, kinds.NAME, "A password.", secret=True)
    passwords: tuple[str, ...] = option(LIMITS, kinds.NAME, "Passwords.", secret=True, repeatable=True)
    plain: str = option(LIMITS, kinds.NAME, "No password.", default="visible")


def test_secrets_are_not_shown() -> None:
    values = WithSecrets(password="hunter2", passwords=("hunter3",))
    assert list(lines(values, (), None)) == ['password: "***"', "passwords:", '  - "***"', "plain: visible"]


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("socks5://user:secret@host:1080", "socks5://user:***@host:1080"),
        ("http://user:se@cr:et@host", "http://user:***@host"),
        ("ssh://user@host:22", "ssh://user@host:22"),
        ("http://:secret@host", "http://:***@host"),
        ("http://host:80/", "http://host:80/"),
    ],
)
def test_passwords_of_urls_are_masked(text: str, masked: str) -> None:
    assert mask(f"a {text} b") == f"a {masked} b"


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())


def test_the_schema_knows_every_option_with_help_and_default() -> None:
    properties = json_schema()["properties"]
    assert set(properties) == {setting.key for setting in all_settings()} | {"clusters", "upstreams", "active"}
    for setting in all_settings():
        assert properties[setting.key]["description"] == setting.help
        has_default = not setting.required and setting.default is not None
        assert ("default" in properties[setting.key]) == has_default
    assert properties["connect-timeout"]["default"] == "5s"
    assert properties["max-request-size"]["default"] == "100MiB"
    assert properties["log-level"]["enum"] == ["debug", "info", "warning", "error"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_loads_and_fits_the_schema(example: Path) -> None:
    load({}, {}, example)
    jsonschema.validate(yaml.safe_load(example.read_text()), json_schema())


@pytest.mark.parametrize(
    "text",
    [
        "bootstrap-servers: a\nconnect-timeout: 500ms\nretire-after: 0.5\nmax-request-size: 2048\nadmin: off",
        "bootstrap-servers: [a, b:1]\nnode-ports: 20000\nmap: a=b\nadmin: 'off'",
        "clusters: [{bootstrap-servers: a, name: x}]\nlog-level: debug",
        "upstreams: {blue: {bootstrap-servers: a, tls: true}, green: {bootstrap-servers: [b]}}\nactive: green",
        "clusters: [{upstreams: {old-1: {bootstrap-servers: a}}}]",
    ],
)
def test_the_schema_accepts(text: str, tmp_path: Path) -> None:
    file = tmp_path / "k.yaml"
    file.write_text(text)
    load({}, {}, file)
    jsonschema.validate(yaml.safe_load(text), json_schema())


@pytest.mark.parametrize(
    "text",
    [
        "bootstrap-server: a",
        "bootstrap_servers: a",
        "bootstrap-servers: []",
        "bootstrap-servers:",
        "listen: 19092",
        "listen: localhost",
        "name: Orders",
        "connect-timeout: 5 parsecs",
        "connect-timeout: 0",
        "max-request-size: 1",
        "max-connections: ten",
        "max-connections: 0",
        "map: [a]",
        "node-ports: a-b",
        "admin: here",
        "admin: true",
        "log-level: loud",
        "ready-requires: maybe",
        "clusters: []",
        "clusters: [{name: a}]",
        "clusters: [{bootstrap-servers: a, admin: off}]",
        "clusters: [{bootstrap-servers: a}]\nlisten: 127.0.0.1:1",
        "- a",
    ],
)
def test_the_schema_rejects_what_loading_rejects(text: str, tmp_path: Path) -> None:
    file = tmp_path / "k.yaml"
    file.write_text(text)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(text), json_schema())
    # Without the flag, the missing bootstrap server would be the reason.
    flags: dict[str, object] = {} if "bootstrap" in text or "clusters" in text else {"bootstrap_servers": "a"}
    with pytest.raises(ConfigError):
        load(flags, {}, file)


def test_the_documentation_has_the_table_of_the_declaration() -> None:
    """To mend it: put the output of `reference_table()` between the two marks."""
    text = (ROOT / "docs" / "configuration.md").read_text()
    table = text.partition("<!-- options: begin -->\n")[2].partition("<!-- options: end -->")[0]
    assert table == reference_table()
    for setting in all_settings():
        assert f"| `{setting.key}` |" in table
        assert f"`{setting.env}`" in table
        assert setting.required or setting.default_text in table


def test_the_commented_example_shows_options_with_defaults(tmp_path: Path) -> None:
    text = (ROOT / "config" / "kproxy.yaml").read_text()
    options = re.findall(r"^#([a-z-]+): *(.*)$", text, re.MULTILINE)
    assert [key for key, _ in options] + ["bootstrap-servers"] == unordered(
        [setting.key for setting in all_settings()], like=[key for key, _ in options] + ["bootstrap-servers"]
    )
    example = {setting.key for setting in all_settings() if not setting.default} - {"node-ports"}
    live: dict[str, Any] = {key: value for key, value in options if key not in example}
    file = tmp_path / "k.yaml"
    file.write_text(yaml.safe_dump({"bootstrap-servers": "a", **live}))
    shown, default = load({}, {}, file), load({"bootstrap_servers": "a"}, {}, None)
    assert shown.clusters[0].node_ports == default.clusters[0].effective_node_ports()
    assert shown.clusters[0].replace(node_ports=None) == default.clusters[0]
    assert shown.replace(clusters=default.clusters) == default


def test_the_commented_parts_of_the_example_are_valid(tmp_path: Path) -> None:
    text = (ROOT / "config" / "kproxy.yaml").read_text()
    file = tmp_path / "k.yaml"
    text = text.replace("#tls: false", "#tls: true")
    other_ways = (  # each of them excludes others
        r"^#(client-config|sni|admin-token|sasl-password|oauth|client-oauth|client-tls-principal|kerberos|aws|default-login|credentials)"
        r"[a-z-]*: .*"
        r"|^#forward-command:\n(#  - .*\n)+"
    )
    text = re.sub(other_ways, "", text.replace("#sasl-password-file", "sasl-password-file"), flags=re.MULTILINE)
    file.write_text(re.sub(r"^#(?=[a-z-]+:|  - )", "", text, flags=re.MULTILINE))
    config = load({}, {}, file)
    assert isinstance(config, Config)
    assert isinstance(config.clusters[0], ClusterConfig)
    assert len(config.clusters[0].map) == 4
    assert len(config.clusters[0].via) == 2
    assert config.clusters[0].advertise is not None


def unordered(items: list[str], like: list[str]) -> list[str]:
    """`items` in the order of `like`, so that a comparison shows what is missing."""
    return sorted(items, key=lambda item: like.index(item) if item in like else len(like))
