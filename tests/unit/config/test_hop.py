"""`--via`: which URLs are read, which are refused, and that no password is ever shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.base.errors import ConfigError
from kproxy.config import Hop, kinds, load, read
from kproxy.config.hop import mask
from kproxy.config.presentation import show

words = st.text(min_size=1, max_size=20)
hosts = st.from_regex(r"[a-z][a-z0-9.-]{0,20}", fullmatch=True) | st.ip_addresses().map(str)
SECRET = "s3cr3t"


@given(
    st.builds(Hop, st.sampled_from(["http", "https"]), hosts, st.integers(1, 65535), words, words)
    | st.builds(Hop, st.just("ssh"), hosts, st.none() | st.integers(1, 65535), st.none() | words)
)
def test_a_hop_reads_its_own_url(hop: Hop) -> None:
    assert Hop.parse(hop.url) == hop
    assert kinds.VIA.read(hop) == hop


@pytest.mark.parametrize(
    ("text", "hop"),
    [
        ("socks5://proxy:1080", Hop("socks5", "proxy", 1080)),
        ("socks5h://proxy:1080", Hop("socks5", "proxy", 1080)),
        ("socks5://u:p@proxy:1080/", Hop("socks5", "proxy", 1080, "u", "p")),
        ("http://user:a%2Cb%40c@[::1]:3128", Hop("http", "::1", 3128, "user", "a,b@c")),
        ("https://proxy.example:443", Hop("https", "proxy.example", 443)),
        ("ssh://bastion", Hop("ssh", "bastion", None)),
        ("k8s://kafka", Hop("kubernetes", "kafka", None)),
        ("kubernetes://staging/kafka", Hop("kubernetes", "kafka", None, "staging")),
        ("k8s://arn:aws:eks:eu:1:cluster/one/kafka", Hop("kubernetes", "kafka", None, "arn:aws:eks:eu:1:cluster/one")),
        ("k8s://my%20context/kafka", Hop("kubernetes", "kafka", None, "my context")),
        ("docker://shop_default", Hop("docker", "shop_default", None)),
        ("podman://kafka/", Hop("docker", "kafka", None)),
        (" ssh://me@bastion:2222 ", Hop("ssh", "bastion", 2222, "me")),
    ],
)
def test_what_is_read(text: str, hop: Hop) -> None:
    assert Hop.parse(text) == hop


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"user:{SECRET}@proxy:1080", "unknown scheme"),
        (f"ftp://user:{SECRET}@proxy:21", "unknown scheme"),
        ("proxy:1080", "unknown scheme"),
        (f"socks5://user:{SECRET}", "not a URL"),
        ("k8s://", "must be a namespace"),
        ("k8s://kafka.svc", "must be a namespace"),
        ("docker://", "must be the name of a network"),
        ("docker://a/b", "must be the name of a network"),
        ("docker://-x", "must be the name of a network"),
        (f"socks5://user:{SECRET}@proxy", "the port is missing"),
        (f"http://user:{SECRET}@proxy:0", "the port is missing"),
        (f"http://user:{SECRET}@proxy:99999", "not a URL"),
        (f"http://user:{SECRET}#4@proxy:1", "not a URL"),
        (f"http://user:{SECRET}@proxy:1/path", "must have a host and a port, and nothing after"),
        (f"http://user:{SECRET}@proxy:1?{SECRET}", "must have a host and a port, and nothing after"),
        (f"http://user:{SECRET}@:1", "must have a host and a port"),
        (f"ssh://user:{SECRET}@bastion", "kproxy does not use a password in ssh://"),
        ("socks5://user@proxy:1080", "SOCKS5 takes a user and a password"),
        (f"socks5://user:{SECRET}{'x' * 255}@proxy:1080", "SOCKS5 takes a user and a password"),
        (f"socks5://us%C3%A9r:{SECRET}@proxy:1080", "SOCKS5 takes a user and a password"),
    ],
)
def test_what_is_refused_is_not_repeated(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load({"bootstrap_servers": "a", "via": text}, {}, None)
    assert message in str(caught.value)
    assert SECRET not in str(caught.value)
    assert len(caught.value.problems) == 1


def test_a_comma_in_a_password_does_not_show_it() -> None:
    with pytest.raises(ConfigError) as caught:
        load({"bootstrap_servers": "a", "via": f"socks5://user:{SECRET},{SECRET}@proxy:1080"}, {}, None)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("source", ["flag", "environment", "file"])
def test_passwords_are_masked_wherever_they_are_shown(source: str, tmp_path: Path) -> None:
    text = f"ssh://bastion, socks5://user:{SECRET}@proxy:1080"
    file = tmp_path / "k.yaml"
    file.write_text(f"via: {text}\n" if source == "file" else "name: x\n")
    flags: dict[str, object] = {"bootstrap_servers": "a", **({"via": text} if source == "flag" else {})}
    loaded = read(flags, {"KPROXY_VIA": text} if source == "environment" else {}, file)
    hops = loaded.config.clusters[0].via
    assert [hop.password for hop in hops] == [None, SECRET]
    for shown in (show(loaded.config, loaded.origins), repr(loaded.config), str(hops[1]), str(hops)):
        assert SECRET not in shown
    assert "socks5://user:***@proxy:1080" in show(loaded.config)


def test_the_word_for_a_password_is_not_masked() -> None:
    """In what is allowed. It said `socks5://[USER:***@]HOST:PORT`, as if somebody had given a password."""
    with pytest.raises(ConfigError) as caught:
        read({"bootstrap_servers": "a", "via": f"socks4://me:{SECRET}@proxy:1080"}, {}, None)
    assert "allowed: socks5://[USER:PASSWORD@]HOST:PORT, http://" in str(caught.value)
    assert SECRET not in str(caught.value)
    for text in (
        f"http://[USER:{SECRET}@]HOST",
        f"http://USER:{SECRET}@h",
        f"http://[USER:PASSWORD@{SECRET}:{SECRET}@h",
    ):
        assert SECRET not in mask(text)
