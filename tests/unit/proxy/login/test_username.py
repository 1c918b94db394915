"""The name in the messages of logins that pass: as real clients' libraries write them, cut anywhere, and nonsense."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scramp import ScramClient

from kproxy.proxy.login.username import read_user_name

SCRAM = "SCRAM-SHA-512"


@pytest.mark.parametrize("name", ["alice", "a,b=c", "jürgen", "CN=shop,O=x", "=2C"])
def test_scram_as_a_client_library_writes_it(name: str) -> None:
    client = ScramClient([SCRAM], name, "secret")
    assert read_user_name(SCRAM, client.get_client_first().encode()) == name


@pytest.mark.parametrize(
    ("mechanism", "token", "name"),
    [
        ("PLAIN", b"\0alice\0secret", "alice"),
        ("PLAIN", b"other\0alice\0sec\0ret", "alice"),
        ("PLAIN", b"\0alice\0", "alice"),
        ("PLAIN", b"\0\0secret", ""),
        ("PLAIN", b"\0alice", ""),  # the password may have begun, or the name go on
        ("PLAIN", b"alice", ""),
        ("PLAIN", b"", ""),
        ("PLAIN", b"\0\xff\0secret", "\N{REPLACEMENT CHARACTER}"),
        (SCRAM, b"n,a=bob,n=alice,r=x", "alice"),
        (SCRAM, b"y,,n=alice,r=x", "alice"),
        (SCRAM, b"p=tls-unique,,n=alice,r=x", "alice"),
        (SCRAM, b"n,,m=ext,n=alice,r=x", "alice"),
        (SCRAM, b"n,,n=alice", ""),
        (SCRAM, b"n,,n=,r=x", ""),
        (SCRAM, b"n,,n=token-id,r=x,tokenauth=true", ""),
        (SCRAM, b"c=biws,r=xn=alice,n=bob,p=cHJvb2Y=", ""),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer e30.e30.\x01\x01", ""),
        ("GSSAPI", b"\x60\x82\x02\xf5n,,n=alice,r=x", ""),
        ("AWS_MSK_IAM", b'{"user-agent":"n,,n=alice,r=x"}', ""),
        ("", b"\0alice\0secret", ""),
    ],
)
def test_messages(mechanism: str, token: bytes, name: str) -> None:
    assert read_user_name(mechanism, token) == name


@pytest.mark.parametrize(
    ("mechanism", "token"), [("PLAIN", b"\0alice\0secret"), (SCRAM, b"n,,n=alice,r=fyko+d2lbbFgONRv9qkxdawL")]
)
def test_a_beginning_has_the_whole_name_or_none(mechanism: str, token: bytes) -> None:
    names = [read_user_name(mechanism, token[:end]) for end in range(len(token) + 1)]
    assert set(names) == {"", "alice"}
    assert names == sorted(names)  # once it is there, it stays


@given(st.sampled_from(["PLAIN", SCRAM]), st.binary(max_size=600))
def test_nonsense(mechanism: str, token: bytes) -> None:
    assert isinstance(read_user_name(mechanism, token), str)


@pytest.mark.parametrize("mechanism", ["PLAIN", SCRAM])
@pytest.mark.parametrize("piece", [b"n,", b"a=", b",", b"\0", b"=", b"n,,m=", b"p=,"])
def test_a_long_message_without_a_name(mechanism: str, piece: bytes) -> None:
    # It would not end for hours if it cost the square of its length.
    assert read_user_name(mechanism, piece * 200_000) == ""
