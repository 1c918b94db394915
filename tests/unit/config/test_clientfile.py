"""A client.properties: which options it gives, what wins over it, and what contradicts itself."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from kproxy.base.errors import ConfigError
from kproxy.config import ClusterConfig, load, read
from kproxy.config.clientfile import ClientUse, read_client_use
from kproxy.config.options import cluster_settings
from kproxy.config.presentation import show

SECURITY = "org.apache.kafka.common.security"
START = "bootstrap.servers=a:1,b:2\nsecurity.protocol=SASL_PLAINTEXT\n"
MODULE = f"{SECURITY}.plain.PlainLoginModule"
PLAIN = f'{START}sasl.mechanism=PLAIN\nsasl.jaas.config={MODULE} required username="u" password="hunter2";\n'
OAUTH = f"{START}sasl.mechanism=OAUTHBEARER\nsasl.jaas.config={SECURITY}.oauthbearer.OAuthBearerLoginModule required"
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url=https://idp/token\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("client.properties")


def cluster(file: Path, text: str | bytes, env: dict[str, str] | None = None, **flags: object) -> ClusterConfig:
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load({"client_config": str(file), **flags}, env or {}, None).clusters[0]


def given(config: ClusterConfig) -> dict[str, Any]:
    """The options that are not as they are by default."""
    plain = ClusterConfig(bootstrap_servers=config.bootstrap_servers)
    return {
        name: value
        for name in (setting.name for setting in cluster_settings().values())
        if (value := getattr(config, name)) != getattr(plain, name) and name != "client_config"
    }


# Lines of a file, then the options that it gives.
GIVES = """
bootstrap.servers=a:1
key.serializer=x
acks=all
===
metadata.broker.list=a:1
security.protocol=plaintext
===
{PLAIN}> sasl=PLAIN sasl_username=u sasl_password=hunter2
===
{START}sasl.mechanisms=SCRAM-SHA-512
sasl.username=u
sasl.password=hunter2
> sasl=SCRAM-SHA-512 sasl_username=u sasl_password=hunter2
===
{OAUTH} clientId="u" clientSecret="hunter2" scope="a b" extension_logicalCluster="lkc-1";
{TOKEN_URL}> sasl=OAUTHBEARER sasl_username=u sasl_password=hunter2 oauth_scope='a b' oauth_token_url=https://idp/token
> oauth_extensions=logicalCluster=lkc-1
===
{OAUTH};
sasl.oauthbearer.token.endpoint.url=file:///run/token
> sasl=OAUTHBEARER oauth_token_file=/run/token
===
{START}sasl.mechanism=OAUTHBEARER
sasl.oauthbearer.method=oidc
{TOKEN_URL}sasl.oauthbearer.client.id=u
sasl.oauthbearer.client.secret=hunter2
sasl.oauthbearer.extensions=a=1,b=2
> sasl=OAUTHBEARER sasl_username=u sasl_password=hunter2 oauth_token_url=https://idp/token oauth_extensions=a=1,b=2
===
bootstrap.servers=a:1
security.protocol=SSL
ssl.truststore.location=/t.jks
ssl.truststore.password=hunter2
ssl.truststore.type=JKS
ssl.keystore.location=/k.p12
ssl.keystore.password=hunter3
ssl.key.password=hunter3
ssl.endpoint.identification.algorithm=
> tls=yes tls_ca=/t.jks tls_ca_password=hunter2 tls_cert=/k.p12 tls_key_password=hunter3 tls_server_name=*
===
{PLAIN_SSL}ssl.ca.location=ca.pem
ssl.certificate.location=me.pem
ssl.key.location=me.key
ssl.endpoint.identification.algorithm=https
> sasl=PLAIN sasl_username=u sasl_password=hunter2 tls=yes tls_ca=ca.pem tls_cert=me.pem tls_key=me.key
===
bootstrap.servers=a:1
security.protocol=ssl
enable.ssl.certificate.verification=false
> tls=yes tls_insecure=yes
===
{START}sasl.kerberos.service.name=broker
sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule \\
  required useKeyTab=true keyTab="/etc/a.keytab" principal="alice@EXAMPLE.COM";
> sasl=GSSAPI sasl_username=alice@EXAMPLE.COM kerberos_service=broker kerberos_keytab=/etc/a.keytab
===
{START}sasl.mechanism=AWS_MSK_IAM
sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required awsProfileName="dev";
sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler
> sasl=AWS_MSK_IAM aws_profile=dev
"""


@pytest.mark.parametrize("case", GIVES.strip().split("\n===\n"))
def test_what_it_gives(file: Path, case: str) -> None:
    case = case.format(**globals(), PLAIN_SSL=PLAIN.replace("SASL_PLAINTEXT", "sasl_ssl"))
    text = "".join(line for line in case.splitlines(keepends=True) if not line.startswith("> "))
    words = " ".join(line[2:] for line in case.splitlines() if line.startswith("> "))
    settings = {setting.name: setting for setting in cluster_settings().values()}
    expected: dict[str, object] = {}
    for name, _, value in (word.partition("=") for word in shlex.split(words)):
        expected[name] = tuple(value.split(",")) if settings[name].repeatable else settings[name].kind.read(value)
    assert given(cluster(file, text)) == expected


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-8-sig"])
def test_encodings(file: Path, encoding: str) -> None:
    assert cluster(file, PLAIN.replace("hunter2", "hünter").encode(encoding)).sasl_password == "hünter"


def test_the_syntax_of_properties(file: Path) -> None:
    text = (
        "! a comment\n\n  bootstrap.servers : a:1,\\\n\t  b:2\nsecurity.protocol SASL_PLAINTEXT\r\n"
        "sasl.mechanism=PLAIN\n"
        "sasl.mechanism = SCRAM-SHA-256\nsasl.username=\\u0061\\=b\nsasl.password=c\\\\d\\te   \n"
    )
    assert given(cluster(file, text)) == {"sasl": "SCRAM-SHA-256", "sasl_username": "a=b", "sasl_password": "c\\d\te"}


def test_everything_else_wins_over_it(file: Path, tmp_path: Path) -> None:
    env = {"KPROXY_SASL_USERNAME": "other"}
    config = cluster(file, PLAIN, env, sasl="SCRAM-SHA-256", bootstrap_servers="c:3", sasl_password_file="/run/secret")
    assert [str(server) for server in config.bootstrap_servers] == ["c:3"]
    assert given(config) == {
        "sasl": "SCRAM-SHA-256",
        "sasl_username": "other",
        "sasl_password_file": Path("/run/secret"),
    }
    Path("k.yaml").write_text("client-config: client.properties\nsasl-username: yaml\n")
    assert load({}, {}, Path("k.yaml")).clusters[0].sasl_username == "yaml"


def test_two_clusters_with_a_file_each(file: Path) -> None:
    file.write_text(PLAIN)
    Path("other").write_text("bootstrap.servers=c:3\n")
    Path("k.yaml").write_text(
        "clusters:\n- name: a\n  client-config: client.properties\n"
        "- name: b\n  client-config: other\n  listen: 127.0.0.1:1\n"
    )
    config = load({}, {}, Path("k.yaml"))
    assert [one.sasl for one in config.clusters] == ["PLAIN", None]


def test_the_password_is_not_shown(file: Path) -> None:
    file.write_text(PLAIN)
    loaded = read({"client_config": str(file)}, {}, None)
    shown = show(loaded.config, loaded.origins)
    assert 'sasl-password: "***"  # client.properties:4' in shown
    assert "hunter2" not in shown + repr(loaded) + repr(loaded.config)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            PLAIN.replace("SASL_PLAINTEXT", "PLAINTEXT"),
            "3: sasl.mechanism: is given, but with security.protocol PLAINTEXT a client",
        ),
        (
            PLAIN.replace("security", "x", 1),
            "3: sasl.mechanism: is given, but with security.protocol PLAINTEXT a client",
        ),
        (PLAIN.replace("SASL_PLAINTEXT", "TLS"), "2: security.protocol: is unknown; allowed: PLAINTEXT, SSL"),
        (PLAIN + "sasl.mechanisms=GSSAPI\n", "5: sasl.mechanisms: contradicts sasl.mechanism on line 3"),
        (PLAIN + "sasl.password=hunter3\n", "4: sasl.jaas.config: contradicts sasl.password on line 5"),
        (
            PLAIN.replace("=PLAIN", "=SCRAM-SHA-256"),
            "4: sasl.jaas.config: PlainLoginModule is not the login module of SCRAM",
        ),
        (PLAIN.replace("=PLAIN", "=hunter"), "3: sasl: 'hunter' is not known; allowed: PLAIN, "),
        (PLAIN.replace('"hunter2"', "hunter2!"), "4: sasl.jaas.config: is not a JAAS entry: it has a character that"),
        (
            PLAIN.replace(";", ""),
            "4: sasl.jaas.config: is not a JAAS entry: it does not end with a semicolon; allowed: M",
        ),
        (PLAIN.replace('password="hunter2"', ""), "3: sasl: PLAIN needs a password; allowed: one of sasl-password, "),
        (f"{OAUTH};\n", "3: sasl: OAUTHBEARER needs a token; allowed: one of oauth-token-url"),
        (
            f'{OAUTH} unsecuredLoginStringClaim_sub="u";\n{TOKEN_URL}',
            "unsecuredLoginStringClaim_sub: kproxy does not create unsec",
        ),
        (f'{OAUTH} clientId="u";\n{TOKEN_URL}', "3: sasl: oauth-token-url needs a password"),
        (
            "security.protocol=SSL\nssl.keystore.password=hunter2\nssl.key.password=hunter3\n",
            "3: ssl.key.password: contradicts ssl.keystore.password on line 2",
        ),
        (
            "security.protocol=SSL\nssl.truststore.certificates=hunter2\n",
            "2: ssl.truststore.certificates: kproxy reads PEM only from files; allowed: a PEM file in ssl.truststore",
        ),
        (PLAIN + "config.providers=file\n", "5: config.providers: kproxy does not support config prov"),
        (PLAIN + "x=hunter2\\uqqqq\n", r"client.properties:5: has \u without four"),
    ],
)
def test_what_is_wrong(file: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        cluster(file, text)
    assert [line for line in caught.value.problems if problem in line], caught.value.problems
    for line in caught.value.problems:
        assert line.startswith(("client.properties", "no bootstrap server"))
        assert "hunter2" not in line
        assert "hunter3" not in line


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda path: None, "cannot be read: No such file or directory"),
        (Path.mkdir, "cannot be read: Is a directory"),
        (lambda path: path.write_bytes(b"#" * 1_100_000), "is larger than 1024 KiB"),
    ],
)
def test_no_file(file: Path, make: Any, problem: str) -> None:
    make(file)
    with pytest.raises(ConfigError) as caught:
        load({"client_config": str(file)}, {}, None)  # that it would have the servers is not said, too
    assert len(caught.value.problems) == 1
    assert problem in caught.value.problems[0]


@pytest.mark.parametrize(
    ("text", "use"),
    [
        ("bootstrap.servers=a:1\n", ClientUse()),
        ("group.id=billing\nacks=all\n", ClientUse("billing", -1)),
        ("acks=-1\n", ClientUse(None, -1)),
        ("request.required.acks=0\n", ClientUse(None, 0)),
        ("acks = 1\n", ClientUse(None, 1)),
        ("group.id=\nacks=some\n", ClientUse()),
        ("acks=\\u12\n", ClientUse()),
    ],
)
def test_what_a_client_does_with_a_cluster(file: Path, text: str, use: ClientUse) -> None:
    file.write_text(text)

    assert read_client_use(file) == use


def test_what_a_client_does_is_unknown_without_its_file(file: Path) -> None:
    assert read_client_use(file) == ClientUse()
