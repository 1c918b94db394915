"""`--forward-command`: its words, its placeholders, and what a broker may put into them."""

from __future__ import annotations

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import ConfigError
from kproxy.config import load
from kproxy.config.forwardcommand import ForwardCommand

KUBECTL = "kubectl port-forward pod/kafka-{node} {port}:9092"
SSH = "ssh -N -L {port}:{host}:{remote-port} bastion"
THERE = Address("b-3.kafka.internal", 9094)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (KUBECTL, "kubectl port-forward pod/kafka-3 20000:9092"),
        (SSH, "ssh -N -L 20000:b-3.kafka.internal:9094 bastion"),
        ("gcloud {short-host} {remote-port} --local=localhost:{port}", "gcloud b-3 9094 --local=localhost:20000"),
        ("""aws '{"host":["{host}"],"port":["{port}"]}'""", 'aws {"host":["b-3.kafka.internal"],"port":["20000"]}'),
        ("p {{.Name}} {port}", "p {{.Name}} 20000"),
        ("'my program' \"a b\" {port}{port}", "my program a b 2000020000"),
    ],
)  # fmt: skip
def test_the_words_of_a_command(text: str, words: str) -> None:
    command = ForwardCommand.parse(text)
    assert " ".join(command.arguments("3", THERE, 20000)) == words
    assert ForwardCommand.parse(str(command)) == command


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "'' does not begin with a program"),
        ("  ", "does not begin with a program"),
        ("{host} {port}", "does not begin with a program"),
        ("'' {port}", "does not begin with a program"),
        ("a\0 {port}", "does not begin with a program"),
        ("kubectl port-forward pod/kafka 9092", "does not say on which port to listen"),
        ("kubectl 'pod {port}", "cannot be split into words: check its quotes"),
        ("kubectl {nodeid} {port}", "{nodeid} is no placeholder; allowed: {node}, {host}, {short-host}"),
    ],
)
def test_what_is_no_command(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match="allowed: ") as caught:
        ForwardCommand.parse(text)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_node_id_is_for_nodes_only() -> None:
    assert [ForwardCommand.parse(text).fits("") for text in (KUBECTL, SSH)] == [False, True]
    assert all(ForwardCommand.parse(text).fits("controller-3000") for text in (KUBECTL, SSH))


@pytest.mark.parametrize(
    ("host", "word", "short"),
    [
        ("kafka_0", "kafka_0", "kafka_0"),
        ("10.0.0.7", "10.0.0.7", "10.0.0.7"),
        ("2001:DB8::1", "[2001:db8::1]", "[2001:db8::1]"),
        ("k.a", "k.a", "k"),
        ("a" * 253, "a" * 253, "a" * 253),
    ],
)
def test_a_host_in_a_command(host: str, word: str, short: str) -> None:
    command = ForwardCommand.parse("p {host} {short-host} {port}")
    assert command.arguments("", Address(host, 1), 2) == ("p", word, short, "2")


@pytest.mark.parametrize(
    "host",
    ["-oProxyCommand=sh", "--kubeconfig=x", "a b", "a\nb", "a;reboot", "$(reboot)", "`id`", "a'b", 'a"b', "a/b", "..",
     ".", "a,b", "a=b", "{port}", "a" * 254, "a" * 300, "", "fe80::1%eth0", "::1%", "ü.example", "a\0b", "a:b",
     "\u202e"],
)  # fmt: skip
def test_a_host_that_no_command_gets(host: str) -> None:
    for text in ("p {host} {port}", "p {short-host} {port}"):
        with pytest.raises(ValueError, match="is no host name, and kproxy puts it into no command") as caught:
            ForwardCommand.parse(text).arguments("3", Address(host, 1), 2)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 200
    assert ForwardCommand.parse(KUBECTL).arguments("3", Address(host, 1), 2)[-1] == "2:9092", "it is not needed there"


@pytest.mark.parametrize("port", [0, -1, 65536, 2**31 - 1])
def test_a_port_that_no_command_gets(port: int) -> None:
    with pytest.raises(ValueError, match=f"the advertised port {port} is no port"):
        ForwardCommand.parse(SSH).arguments("3", Address("a", port), 2)


def test_commas_are_part_of_a_command() -> None:
    text = "aws ssm start-session --parameters host={host},portNumber={remote-port},localPortNumber={port}"
    for flags, env in (({"forward_command": (text, KUBECTL)}, {}), ({}, {"KPROXY_FORWARD_COMMAND": text})):
        (cluster,) = load({"bootstrap_servers": "a", **flags}, env, None).clusters
        assert str(cluster.forward_command[0]) == text
    assert len(cluster.forward_command) == 1


def test_it_is_not_combined_with_via() -> None:
    with pytest.raises(ConfigError, match="--forward-command: listen on this machine, and via connects"):
        load({"bootstrap_servers": "a", "forward_command": (SSH,), "via": ("ssh://b",)}, {}, None)


def test_a_bootstrap_server_that_a_command_forwards_may_have_the_address_of_listen() -> None:
    flags = {"bootstrap_servers": "127.0.0.1:19092", "listen": "127.0.0.1:19092"}
    load({**flags, "forward_command": (SSH,)}, {}, None)
    with pytest.raises(ConfigError, match="is also the address of listen"):
        load({**flags, "forward_command": (KUBECTL,)}, {}, None)
