"""From flags, environment and file to one configuration, or to every mistake in its exact words."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.base.address import Address
from kproxy.base.errors import ConfigError
from kproxy.config import Config, Map, load, read
from kproxy.config.options import cluster_settings
from kproxy.config.presentation import show

NO_SERVER = (
    "no bootstrap server is given; allowed: -b HOST:PORT, KPROXY_BOOTSTRAP_SERVERS, or bootstrap-servers in {file}"
)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for a file with a short name, as messages show it."""
    monkeypatch.chdir(tmp_path)
    return Path("k.yaml")


def problems(flags: dict[str, object], env: dict[str, str], file: Path | None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(flags, env, file)
    assert all(line.isprintable() for line in caught.value.problems)
    return list(caught.value.problems)


def test_flags_override_variables_and_variables_the_file(file: Path) -> None:
    file.write_text("bootstrap-servers: file\nname: file\nlisten: 127.0.0.1:1000\nlog-level: error\n")
    loaded = read({"name": "flag"}, {"KPROXY_NAME": "env", "KPROXY_LISTEN": "127.0.0.1:2000"}, file)
    cluster = loaded.config.clusters[0]
    assert (cluster.name, cluster.listen.port, cluster.bootstrap_servers[0].host) == ("flag", 2000, "file")
    assert loaded.config.log_level == "error"
    assert loaded.origins["clusters", 0, "name"] == "--name"
    assert loaded.origins["clusters", 0, "listen"] == "KPROXY_LISTEN"
    assert loaded.origins["clusters", 0, "bootstrap-servers"] == "k.yaml:1"
    assert loaded.origins["log-level",] == "k.yaml:4"


def test_a_stronger_list_replaces_a_weaker_one(file: Path) -> None:
    file.write_text("bootstrap-servers: [a, b]\nmap: [a=b, c=d]\n")
    config = load({"bootstrap_servers": ("x:1,y", "z")}, {"KPROXY_MAP": "e=f"}, file)
    assert [str(server) for server in config.clusters[0].bootstrap_servers] == ["x:1", "y:9092", "z:9092"]
    assert config.clusters[0].map == (Map.parse("e=f"),)


@pytest.mark.parametrize(
    "text",
    ["bootstrap-servers: a:1, b", "bootstrap-servers: [a:1, b]", "bootstrap-servers:\n- a:1\n- b\n",
     "bootstrap-servers:\n- a:1, b\n", "clusters: [{bootstrap-servers: [a:1, b]}]",
     "\N{BYTE ORDER MARK}bootstrap-servers: a:1,b", "{bootstrap-servers: 'a:1,,b,'}"],
)  # fmt: skip
def test_ways_to_write_the_same(file: Path, text: str) -> None:
    file.write_text(text)
    assert load({}, {}, file) == load({"bootstrap_servers": ("a:1", "b")}, {}, None)


def test_text_stays_as_it_was_written(file: Path) -> None:
    file.write_text("name: no\nbootstrap-servers: 1:30\nmax-connections: 0100\nadmin: off\nnode-ports: 20000\n")
    config = load({}, {}, file)
    assert config.clusters[0].name == "no"
    assert config.clusters[0].bootstrap_servers == (Address("1", 30),)
    assert config.clusters[0].max_connections == 100
    assert config.admin is None


def test_clusters_can_share_keys(file: Path) -> None:
    file.write_text(
        "clusters:\n"
        "- &a {name: a, bootstrap-servers: a, connect-timeout: 1}\n"
        "- &b {<<: *a, name: b, listen: '127.0.0.1:1000'}\n"
        "- {<<: [*b], name: c, listen: '127.0.0.1:2000', connect-timeout: 2}\n"
    )
    clusters = load({}, {}, file).clusters
    assert [c.connect_timeout for c in clusters] == [1, 1, 2]
    assert [c.bootstrap_servers[0].host for c in clusters] == ["a", "a", "a"]


def test_flags_reach_the_only_cluster_of_a_list(file: Path) -> None:
    file.write_text("clusters: [{name: a, bootstrap-servers: a}]")
    assert load({"listen": "127.0.0.1:5000"}, {}, file).clusters[0].listen.port == 5000


def test_the_environment_names_the_file(file: Path) -> None:
    file.write_text("bootstrap-servers: a")
    assert load({}, {"KPROXY_CONFIG": "k.yaml"}, None).clusters[0].bootstrap_servers[0].host == "a"


def test_variables_that_are_no_options() -> None:
    others = {
        "KPROXY_CACHE": "x", "KPROXY_DEBUG": "1", "KPROXY_BOOTSTRAP": "x", "KPROXY_CONFIG": "", "PATH": "x",
        "KPROXY_SERVICE_HOST": "10.0.0.1", "KPROXY_SERVICE_PORT": "1", "KPROXY_SERVICE_PORT_KAFKA": "1",
        "KPROXY_PORT": "tcp://10.0.0.1:1", "KPROXY_PORT_19092_TCP": "x", "KPROXY_PORT_19092_TCP_ADDR": "x",
        "KPROXY_ADMIN_SERVICE_HOST": "x", "KPROXY_ADMIN_PORT_1_TCP_PROTO": "tcp", "KPROXY_LISTEN": " ",
    }  # fmt: skip
    flags = {"bootstrap_servers": "a"}
    assert load(flags, others, None) == load(flags, {}, None)


# A command line with variables, then the mistakes; a line that begins with + continues the one before it.
IN_FLAGS = """
$
no bootstrap server is given; allowed: -b HOST:PORT, KPROXY_BOOTSTRAP_SERVERS, or bootstrap-servers in a file (-c
+ FILE)
$ --listen x --drain-timeout soon KPROXY_LISTN=y KPROXY_LOG_LEVEL=loud kproxy_listen=z
KPROXY_LISTN: no such variable; did you mean KPROXY_LISTEN?
no bootstrap server is given; allowed: -b HOST:PORT, KPROXY_BOOTSTRAP_SERVERS, or bootstrap-servers in a file (-c
+ FILE)
--listen: 'x' has no port: write HOST:PORT
--drain-timeout: 'soon' is not a duration; allowed: 0s to 1d, as seconds or with ms, s, m, h, d
KPROXY_LOG_LEVEL: 'loud' is not known; allowed: debug, info, warning, error
$ --bootstrap-servers a,b:x --map c
--bootstrap-servers: 'x' is not a port: allowed are 0 to 65535
--map: 'c' is not a map; allowed: HOST[:PORT]=DIAL, GLOB=DIAL, node:ID=DIAL
$ --bootstrap-servers a --admin off --admin-quit true
--admin-quit: needs the admin endpoint, which is off; allowed: an address in admin, or no admin-quit
$ --bootstrap-servers a --admin off --admin-reload true
--admin-reload: needs the admin endpoint, which is off; allowed: an address in admin, or no admin-reload
$ --bootstrap-servers a --admin 0.0.0.0:19091 --admin-reload true
--admin-reload: would let every client that reaches 0.0.0.0:19091 reload; allowed: with admin-token-file, or a
+ loopback address in admin
$ --bootstrap-servers a --admin-token-file f KPROXY_ADMIN_TOKEN=0123456789abcdef
--admin-token-file: cannot be combined with admin-token; allowed: one of them
$ --bootstrap-servers a --admin-tls-key f KPROXY_ADMIN_TLS_KEY_PASSWORD=x
--admin-tls-key: is given, but admin-tls-cert is not; allowed: together with admin-tls-cert
KPROXY_ADMIN_TLS_KEY_PASSWORD: is given, but admin-tls-cert is not; allowed: together with admin-tls-cert
$ --bootstrap-servers a --admin-require-token-for-reads true
--admin-require-token-for-reads: needs a token, and there is none; allowed: together with admin-token-file, or with
+ admin-token
$ --bootstrap-servers a KPROXY_ADMIN_TOKEN=hunter2
KPROXY_ADMIN_TOKEN: the value (not shown) is wrong; allowed: 16 to 4096 characters of ASCII without spaces
$ --bootstrap-servers ,
--bootstrap-servers: is empty; allowed: HOST:PORT, or several
$ --bootstrap-servers a --listen 127.0.0.1:65400 --admin 127.0.0.1:65535
--listen: node-ports 65401-65535 (the ports after listen) and admin 127.0.0.1:65535 overlap; allowed: ports that
+ nothing else uses
$ --bootstrap-servers a --admin localhost:19092
--admin: listen 127.0.0.1:19092 and admin localhost:19092 overlap; allowed: ports that nothing else uses
$ --bootstrap-servers a --node-ports 19000-19100 KPROXY_LISTEN=0.0.0.0:19092 KPROXY_ADMIN=10.0.0.1:19091
--node-ports: 19000-19100 contains 19092, the port of listen; allowed: a range without it
--node-ports: node-ports 19000-19100 and admin 10.0.0.1:19091 overlap; allowed: ports that nothing else uses
$ --bootstrap-servers a --listen '[::1]:65535'
--listen: no port is left for nodes after 65535; allowed: a lower port, or node-ports
$ --bootstrap-servers a --advertise proxy:65337 KPROXY_LISTEN=127.0.0.1:0
--advertise: FIRST_PORT 65337 and 200 node ports go beyond port 65535; allowed: a lower FIRST_PORT
$ --bootstrap-servers a,LOCALHOST:19092 --listen 127.0.0.1:19092
--bootstrap-servers: LOCALHOST:19092 is also the address of listen: kproxy would connect to itself; allowed: another
+ address, or another port in listen
$ --bootstrap-servers a --map node:1=localhost:19092 KPROXY_LISTEN=127.0.0.1:19092
--map: node:1=localhost:19092 leads to the address of listen: kproxy would connect to itself; allowed: another
+ address, or another port in listen
$ --bootstrap-servers a --forward 8081=localhost:19092 --listen 127.0.0.1:19092
--forward: 8081=localhost:19092 leads to the address of listen: kproxy would connect to itself; allowed: another
+ address, or another port in listen
$ --bootstrap-servers a --forward 8081=LOCALHOST:8081,19100=a:1,10.0.0.1:19101=a:1
--forward: 8081=LOCALHOST:8081 leads to itself, a loop; allowed: an address that something else listens on
--forward: node-ports 19093-19292 (the ports after listen) and forward 127.0.0.1:19100 overlap; allowed: ports that
+ nothing else uses
$ --bootstrap-servers a --forward 8081=a:1,8081=b:1
--forward: forward 127.0.0.1:8081 and forward 127.0.0.1:8081 overlap; allowed: ports that nothing else uses
$ --bootstrap-servers a --listen http://user:se@cret@host:1
--listen: 'http://user:***@host:1' is ambiguous: write an IPv6 address as [IPV6]:PORT
$ --bootstrap-servers a KPROXY_CONFIG=nowhere.yaml
nowhere.yaml: does not exist; allowed: a readable YAML file
$ --bootstrap-servers a --tls-ca ca.pem
--tls-ca: is given, but tls is not; allowed: together with tls
$ --bootstrap-servers a --tls yes --tls-key k
--tls-key: is given, but tls-cert is not; allowed: together with tls-cert
$ --bootstrap-servers a --tls-insecure yes
--tls-insecure: is given, but tls is not; allowed: together with tls
$ --bootstrap-servers a --tls yes --tls-insecure yes --tls-ca ca.pem
--tls-insecure: cannot be combined with tls-ca, which it would ignore; allowed: one of them
$ --bootstrap-servers a --client-tls-ca x
--client-tls-ca: is given, but client-tls-cert is not; allowed: together with client-tls-cert
$ --bootstrap-servers a --tls yes --tls-server-name 'a b'
--tls-server-name: 'a b' cannot be a name in a certificate; allowed: a host name, an IP address, or *
$ --bootstrap-servers a --sasl-username u
--sasl-username: is given, but sasl is not; allowed: with sasl PLAIN or SCRAM-SHA-256 or SCRAM-SHA-512 or
+ OAUTHBEARER or GSSAPI
$ --bootstrap-servers a --sasl PLAIN --sasl-password-file p
--sasl: PLAIN needs a user name; allowed: sasl-username
$ --bootstrap-servers a --sasl PLAIN --sasl-username u
--sasl: PLAIN needs a password; allowed: one of sasl-password, sasl-password-file, sasl-password-command
$ --bootstrap-servers a --sasl PLAIN --sasl-username u --sasl-password-file p --sasl-password-command c
--sasl-password-command: cannot be combined with sasl-password-file; allowed: one of sasl-password,
+ sasl-password-file, sasl-password-command
$ --bootstrap-servers a --sasl GSSAPI --oauth-scope s
--oauth-scope: is not for GSSAPI; allowed: with sasl OAUTHBEARER
$ --bootstrap-servers a --sasl OAUTHBEARER
--sasl: OAUTHBEARER needs a token; allowed: one of oauth-token-url, oauth-token-file, oauth-token-command
$ --bootstrap-servers a --sasl plain
--sasl: 'plain' is not known; allowed: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, AWS_MSK_IAM, GSSAPI
$ --bootstrap-servers a --sasl OAUTHBEARER --oauth-token-file t --oauth-extensions auth=x
--oauth-extensions: 'auth=x' is not an extension; allowed: NAME=VALUE, NAME of letters, not auth
$ --bootstrap-servers a --oauth-token-url https://u:hunter2@idp/
--oauth-token-url: not a URL, or one with a password; allowed: https://HOST[:PORT]/PATH, or http://
"""


@pytest.mark.parametrize("case", re.split(r"\n(?=\$)", IN_FLAGS.strip()))
def test_mistakes_in_flags_and_environment(case: str, file: Path) -> None:
    command, *expected = case.replace("\n+", "").split("\n")
    flags: dict[str, object] = {}
    env = {}
    words = iter(shlex.split(command.removeprefix("$")))
    for word in words:
        name, is_variable, value = word.partition("=")
        if is_variable:
            env[name] = value
        else:
            flags[word.removeprefix("--").replace("-", "_")] = next(words)
    assert problems(flags, env, None) == expected


# A file, then (after >) its mistakes; a line that begins with >+ continues the one before it.
IN_FILES = """
# nothing
> k.yaml: is empty; allowed: KEY: VALUE lines, see 'kproxy config schema'
===
- a
> k.yaml:1: is not a mapping; allowed: KEY: VALUE lines, see 'kproxy config schema'
===
bootstrap-servers: a
listen: [::1]:9
> k.yaml:2: is not YAML: while parsing a flow node: expected the node content, but found ':'; put an address that
>+ starts with [ in quotes
===
map:
  - *.x=y
> k.yaml:2: is not YAML: while scanning an alias: expected alphabetic or numeric character, but found '.'; put a value
>+ that starts with * in quotes
===
name: a
---
name: b
> k.yaml:2: is not YAML: expected a single document in the stream: but found another document
===
# comment

bootstrap-server: a
max-connections: 0
admin:
name: x
name: y
map:
  - a=b
  - broken, c=d
  - {e: f}
connect-timeout: [1]
> k.yaml:3: bootstrap-server: no such key; did you mean bootstrap-servers?
> k.yaml:4: max-connections: '0' is out of range; allowed: 1 to 1000000
> k.yaml:5: admin: has no value; allowed: HOST:PORT, or off
> k.yaml:7: name: is given twice, first on line 6; allowed: once
> k.yaml:11: map[3]: is a mapping; allowed: HOST[:PORT]=DIAL, GLOB=DIAL, node:ID=DIAL
> k.yaml:12: connect-timeout: is a list; allowed: 1ms to 1h, as seconds or with ms, s, m, h, d
===
bootstrap_servers: a
map:
  - a=b
  - broken
  - node:x=b
> k.yaml:1: bootstrap_servers: no such key; did you mean bootstrap-servers?
> k.yaml:4: map[1]: 'broken' is not a map; allowed: HOST[:PORT]=DIAL, GLOB=DIAL, node:ID=DIAL
> k.yaml:5: map[2]: 'x' is not a node id; allowed: 0 to 2147483647, or controller-ID
===
listen: 127.0.0.1:1
> no bootstrap server is given; allowed: -b HOST:PORT, KPROXY_BOOTSTRAP_SERVERS, or bootstrap-servers in k.yaml
===
bootstrap-servers: []
> k.yaml:1: bootstrap-servers: is empty; allowed: HOST:PORT, or several
===
bootstrap-servers: !vault a
> k.yaml:1: bootstrap-servers: has the tag '!vault'; allowed: HOST:PORT, or HOST for port 9092
===
bootstrap-servers: a
clusters:
- bootstrap-servers: b
> k.yaml:2: clusters: cannot be combined with bootstrap-servers (line 1), a key of one cluster; allowed: move it into
>+ an entry of clusters
===
clusters: 5
> k.yaml:1: clusters: is not a list of clusters; allowed: one '- name: …' for each
===
clusters: []
> k.yaml:1: clusters: is not a list of clusters; allowed: one '- name: …' for each
===
clusters:
- a
- zzz: 1
  ? [x]
  : 2
> k.yaml:2: clusters[0]: is not a cluster; allowed: KEY: VALUE lines, see 'kproxy config schema'
> k.yaml:3: clusters[1].zzz: no such key; allowed: those of 'kproxy config schema'
> k.yaml:3: clusters[1].bootstrap-servers: is missing; allowed: HOST:PORT, or HOST for port 9092
> k.yaml:4: clusters[1].a key that is no word: no such key; allowed: those of 'kproxy config schema'
===
bootstrap-servers: a
bootstrap: a
tls-keystore: a
> k.yaml:2: bootstrap: no such key; nearest: bootstrap-servers; allowed: those of 'kproxy config schema'
> k.yaml:3: tls-keystore: no such key; nearest: tls-key, tls-key-password, tls-cert;
>+ allowed: those of 'kproxy config schema'
===
clusters:
- bootstrap-servers: a
- bootstrap-servers: b
> k.yaml:3: clusters[1].name: 'default' is the name of two clusters; allowed: a name of its own
> k.yaml:3: clusters[1].listen: listen 127.0.0.1:19092 of cluster 'default' and listen 127.0.0.1:19092 of cluster
>+ 'default' overlap; allowed: ports that nothing else uses
===
clusters:
- name: a
  bootstrap-servers: a
  advertise: proxy:30000
- name: b
  bootstrap-servers: b
  listen: 127.0.0.1:19392
  advertise: Proxy:30199
- name: c
  bootstrap-servers: c
  listen: 127.0.0.1:19100
  node-ports: 19400
- name: d
  bootstrap-servers: d
  listen: 127.0.0.2:19100
> k.yaml:8: clusters[1].advertise: advertise Proxy:30199-30398 of cluster 'b' and advertise proxy:30000-30199 of
>+ cluster 'a' overlap; allowed: ports that nothing else uses
> k.yaml:11: clusters[2].listen: listen 127.0.0.1:19100 of cluster 'c' and node-ports 19093-19292 (the ports after
>+ listen) of cluster 'a' overlap; allowed: ports that nothing else uses
> k.yaml:12: clusters[2].node-ports: node-ports 19400-19599 of cluster 'c' and node-ports 19393-19592 (the ports after
>+ listen) of cluster 'b' overlap; allowed: ports that nothing else uses
===
bootstrap-servers: a
listen: nowhere
admin: 127.0.0.1:19092
advertise: 0.0.0.0
> k.yaml:2: listen: 'nowhere' has no port: write HOST:PORT
> k.yaml:4: advertise: '0.0.0.0' means every interface; allowed: a host that clients can reach
"""


@pytest.mark.parametrize("case", IN_FILES.strip().split("\n===\n"))
def test_mistakes_in_a_file(case: str, file: Path) -> None:
    text, *expected = case.replace("\n>+", "").split("\n> ")
    file.write_text(text)
    assert problems({}, {}, file) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["k.yaml: is empty; allowed: KEY: VALUE lines, see 'kproxy config schema'"]),
        (
            "clusters:\n\t- name: a\n",
            [
                "k.yaml:2: is not YAML: while scanning for the next token: "
                "found character '\\t' that cannot start any token; indent with spaces, not with tabs"
            ],
        ),
        ("name: a\nlisten: \x00", ["k.yaml:2: is not YAML: it has a character that is not text"]),
        ("[" * 5000, ["k.yaml:1: is nested more than 60 deep"]),
        ("#" * 1_100_000, ["k.yaml: is larger than 1024 KiB; allowed: a configuration of kproxy"]),
        (
            "clusters:\n- {<<: {bogus: 1}, bootstrap-servers: a}\n- {<<: 5, name: b, bootstrap-servers: a, "
            "listen: '127.0.0.1:1'}\n",
            [
                "k.yaml:2: clusters[0].bogus: no such key; allowed: those of 'kproxy config schema'",
                "k.yaml:3: <<: is not a mapping; allowed: *NAME of another cluster",
            ],
        )
    ],
)  # fmt: skip
def test_mistakes_in_a_file_that_is_no_text_of_a_person(text: str, expected: list[str], file: Path) -> None:
    file.write_text(text)
    assert problems({}, {}, file) == expected


def test_a_file_that_is_none(file: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    file.write_bytes(b"name: \xff\n")
    assert problems({}, {}, Path("folder")) == ["folder: is a directory; allowed: a readable YAML file"]
    assert problems({}, {}, Path("gone")) == ["gone: does not exist; allowed: a readable YAML file"]
    assert problems({}, {}, file) == ["k.yaml: is not UTF-8 text (byte 7)"]
    assert problems({}, {}, Path("k.yaml/x")) == ["k.yaml/x: not a directory; allowed: a readable YAML file"]


def test_a_file_that_must_not_be_read(file: Path, tmp_path: Path) -> None:
    file.write_text("name: a")
    file.chmod(0)
    root = os.geteuid() == 0  # may read everything, so be somebody else for a moment
    if root:
        os.seteuid(65534)
    try:
        found = problems({}, {}, tmp_path / "k.yaml")
    finally:
        if root:
            os.seteuid(0)
    assert found == [f"{tmp_path}/k.yaml: must not be read by this user; allowed: a readable YAML file"]


def test_a_broken_file_does_not_hide_other_mistakes(file: Path) -> None:
    file.write_text("{")
    assert problems({"listen": "x"}, {}, file)[1:] == ["--listen: 'x' has no port: write HOST:PORT"]


def test_a_flag_mends_what_is_wrong_in_the_file(file: Path) -> None:
    file.write_text("bootstrap-servers: a\nlisten: nowhere\nadmin:\nmap: [broken]\n")
    flags: dict[str, object] = {"listen": "127.0.0.1:1000", "map": ("a=b",)}
    assert problems(flags, {}, file) == ["k.yaml:3: admin: has no value; allowed: HOST:PORT, or off"]


def test_options_of_a_cluster_cannot_be_given_for_several(file: Path) -> None:
    file.write_text(
        "clusters:\n- {name: a, bootstrap-servers: a}\n- {name: b, bootstrap-servers: b, listen: '127.0.0.1:1000'}\n"
    )
    text = "does not say which cluster it means, and the file has several; allowed: put {} under its cluster in k.yaml"
    assert problems({"map": ("a=b",), "admin": "off"}, {"KPROXY_LISTEN": "127.0.0.1:5"}, file) == [
        f"KPROXY_LISTEN: {text.format('listen')}",
        f"--map: {text.format('map')}",
    ]
    assert load({"admin": "off"}, {"KPROXY_LOG_LEVEL": "debug"}, file).admin is None


def test_the_last_port_can_be_advertised() -> None:
    config = load({"bootstrap_servers": "a", "advertise": "proxy:65336"}, {}, None)
    assert config.clusters[0].advertised_port(19292) == 65535


def test_a_wrong_secret_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    name = cluster_settings()["name"]
    secret = replace(name, secret=True)
    monkeypatch.setitem(cluster_settings(), "name", secret)
    assert problems({"bootstrap_servers": "a"}, {"KPROXY_NAME": "Hunter 2"}, None) == [
        "KPROXY_NAME: the value (not shown) is wrong; allowed: 1 to 63 of a-z, 0-9 and -"
    ]


def test_a_flag_that_does_not_exist_is_a_defect_of_the_caller() -> None:
    with pytest.raises(TypeError, match="no option is called lisen"):
        load({"lisen": "x"}, {}, None)


@given(st.text(max_size=200) | st.from_regex(r"(clusters|map|<<|&a|\*a|-|:| |\n|\[|\]|\{|\}|a){1,30}"))
def test_any_text_in_a_file_ends_in_a_configuration_or_in_lines(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        assert isinstance(load({"bootstrap_servers": "a"}, {}, file), Config)
    except ConfigError as error:
        assert error.problems  # noqa: PT017
        assert all(line.isprintable() for line in error.problems)  # noqa: PT017


def test_passwords_come_from_the_environment_or_a_file(file: Path) -> None:
    env = {"KPROXY_TLS_CA_PASSWORD": "changeit"}
    config = load({"bootstrap_servers": "a", "tls": "yes", "tls_ca": "~/ca.jks"}, env, None)
    assert config.clusters[0].tls_ca_password == "changeit"
    assert config.clusters[0].tls_ca == Path("~/ca.jks").expanduser()
    assert "changeit" not in repr(config)
    file.write_text("bootstrap-servers: a\nclient-tls-cert: k.p12\nclient-tls-key-password: geheim\n")
    config = load({}, {}, file)
    assert config.clusters[0].client_tls_key_password == "geheim"
    assert "geheim" not in repr(config)
    with pytest.raises(TypeError):
        load({"tls_ca_password": "changeit"}, {}, None)


def test_an_extension_cannot_hold_another() -> None:
    flags = {"bootstrap_servers": "a", "sasl": "OAUTHBEARER", "oauth_token_file": "t"}
    (line,) = problems({**flags, "oauth_extensions": "a=x\x01auth=y"}, {}, None)
    assert line.startswith("--oauth-extensions: 'a=x\\x01auth=y' is not an extension; allowed: NAME=VALUE")


def test_a_password_is_no_flag_and_never_shown(file: Path) -> None:
    flags = {"bootstrap_servers": "a", "sasl": "PLAIN", "sasl_username": "u"}
    config = load(flags, {"KPROXY_SASL_PASSWORD": " hunter2 "}, None)
    assert config.clusters[0].sasl_password == " hunter2 "
    assert "hunter2" not in repr(config)
    file.write_text("sasl-password: hunter2\n")
    assert load(flags, {}, file).clusters[0].sasl_password == "hunter2"
    with pytest.raises(TypeError):
        load({**flags, "sasl_password": "hunter2"}, {}, None)


def test_the_token_of_the_admin_endpoint_is_never_shown(file: Path) -> None:
    token = "0123456789abcdef"
    config = load({"bootstrap_servers": "a"}, {"KPROXY_ADMIN_TOKEN": token}, None)
    assert config.admin_token == token
    assert token not in repr(config) + show(config)
    file.write_text(f"bootstrap-servers: a\nadmin-token: {token}\n")
    assert load({}, {}, file).admin_token == token


# SASL_SSL:// before a server


@pytest.mark.parametrize(
    ("server", "more"),
    [
        ("PLAINTEXT://a:1", {}),
        ("plaintext://a:1", {}),
        ("SSL://a:1", {"tls": True}),
        ("SASL_PLAINTEXT://a:1", {}),  # clients log in themselves
        ("SASL_PLAINTEXT://a:1", {"sasl": "PLAIN", "sasl_username": "u", "sasl_password_file": "f"}),
        ("SASL_SSL://a:1", {"tls": True}),
    ],
)
def test_a_protocol_before_a_server_that_agrees_is_taken_off(server: str, more: dict[str, object]) -> None:
    config = load({"bootstrap_servers": (f"{server},b", "SSL://[::1]:2" if "tls" in more else "c"), **more}, {}, None)
    first, second, third = config.clusters[0].bootstrap_servers
    assert (first, second) == (Address("a", 1), Address("b", 9092))
    assert third == (Address("::1", 2) if "tls" in more else Address("c", 9092))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("bootstrap-servers:\n- a\n- SASL_SSL://b:1\n- SASL_SSL://c:1\n",
         "k.yaml:3: bootstrap-servers[1]: SASL_SSL:// means TLS, which is off; "
         "allowed: with --tls (tls: true), or HOST:PORT alone"),
        ("tls: true\nbootstrap-servers: PLAINTEXT://a\n",
         "k.yaml:2: bootstrap-servers[0]: PLAINTEXT:// means no TLS, but tls is on; "
         "allowed: with --no-tls (tls: false), or HOST:PORT alone"),
        ("tls: true\nsasl: GSSAPI\nbootstrap-servers: ssl://a\n",
         "k.yaml:3: bootstrap-servers[0]: SSL:// means no login, but sasl is GSSAPI; "
         "allowed: SASL_SSL://, HOST:PORT alone, or no --sasl"),
        ("bootstrap-servers: http://me:secret@a:9092\n",
         "k.yaml:1: bootstrap-servers[0]: 'http://' does not lead to a Kafka broker; allowed: HOST:PORT, or HOST for "
         "port 9092"),
        ("bootstrap-servers: SSL://http://a\ntls: true\n",
         "k.yaml:1: bootstrap-servers[0]: 'http://' does not lead to a Kafka broker; allowed: HOST:PORT, or HOST for "
         "port 9092"),
        ("bootstrap-servers: SSL://\ntls: true\n",
         "k.yaml:1: bootstrap-servers[0]: '' is not an address: write HOST:PORT"),
    ],
)  # fmt: skip
def test_a_protocol_before_a_server_that_says_something_else(text: str, line: str, file: Path) -> None:
    file.write_text(text)
    assert problems({}, {}, file) == [line]


def test_a_protocol_in_a_client_properties(tmp_path: Path) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text("bootstrap.servers=SASL_SSL://a:1,SASL_SSL://b:2\n")
    (line,) = problems({"client_config": str(properties)}, {}, None)
    assert line.startswith(f"{properties}:1: bootstrap-servers[0]: SASL_SSL:// means TLS, which is off; ")
    properties.write_text("bootstrap.servers=SSL://a:1,SSL://b:2\nsecurity.protocol=SSL\n")
    servers = load({"client_config": str(properties)}, {}, None).clusters[0].bootstrap_servers
    assert servers == (Address("a", 1), Address("b", 2))


@pytest.mark.parametrize(
    ("flags", "listen", "taken_by"),
    [
        ({}, "127.0.0.1:19092", ""),
        ({"bootstrap_servers": "a,LOCALHOST:19092"}, "127.0.0.1:19292", "LOCALHOST:19092"),
        ({"bootstrap_servers": "127.0.0.1:19092,localhost:19292"}, "127.0.0.1:19492", "127.0.0.1:19092"),
        ({"map": "node:1=localhost:19092"}, "127.0.0.1:19292", "node:1=localhost:19092"),
        ({"forward": "8081=localhost:19092"}, "127.0.0.1:19292", "8081=localhost:19092"),
        ({"bootstrap_servers": "localhost:19092", "admin": "127.0.0.1:19292"}, "127.0.0.1:19492", "localhost:19092"),
        ({"bootstrap_servers": "localhost:19092", "via": "ssh://bastion"}, "127.0.0.1:19092", ""),
        ({"bootstrap_servers": "localhost:19092", "listen": "127.0.0.1:5"}, "127.0.0.1:5", ""),
    ],
)
def test_a_bootstrap_server_at_the_usual_port_of_kproxy(flags: dict[str, object], listen: str, taken_by: str) -> None:
    cluster = load({"bootstrap_servers": "a"} | flags, {}, None).clusters[0]
    assert (str(cluster.listen), cluster.default_port_user) == (listen, taken_by)


def test_two_upstreams_leave_the_usual_port_together(tmp_path: Path) -> None:
    file = tmp_path / "k.yaml"
    file.write_text(
        "active: blue\nupstreams: {blue: {bootstrap-servers: a}, green: {bootstrap-servers: localhost:19092}}\n"
    )
    assert {str(one.listen) for one in load({}, {}, file).clusters} == {"127.0.0.1:19292"}
