"""TLS to brokers and from clients: whom it trusts, what it says when something is wrong, files that change.

At the other end are OpenSSL's own sockets.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import socket
import ssl
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificate

from kproxy.base.address import Address
from kproxy.base.errors import ConfigError, UpstreamError, WireError
from kproxy.net.dial.connector import Deadline
from kproxy.net.dial.stream import Stream
from kproxy.net.tls.handshakes import ANY_NAME, BrokerTls, ClientTls, TlsFiles
from kproxy.net.tls.tlssocket import TlsSocket
from tests.harness.servers.peers import Peer
from tests.harness.tls import Authority, connected, in_thread, keytool

NAME = "kafka-1.prod.internal"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def echo(context: ssl.SSLContext, connection: socket.socket) -> None:
    """A TLS server that sends back what it gets."""
    connection.settimeout(30)
    with context.wrap_socket(connection, server_side=True) as tls:
        while more := tls.recv(65536):
            tls.sendall(more)


@contextlib.contextmanager
def server(context: ssl.SSLContext) -> Iterator[Peer]:
    with Peer(partial(echo, context)) as peer:
        yield peer


async def ask(tls: BrokerTls, peer: Peer, name: str = NAME) -> bytes:
    """Open a connection, and have something echoed."""
    host, _, port = peer.address.partition(":")
    with await open_to(tls, Address(host, int(port)), name) as sock:
        stream = Stream(sock)
        await stream.send(b"hello")
        return await stream.receive(100)


async def open_to(tls: BrokerTls, address: Address, name: str = NAME) -> TlsSocket:
    async def connect() -> socket.socket:
        sock = socket.create_connection((address.host, address.port), 30)
        sock.setblocking(False)
        return sock

    return await tls.open(connect, address, name, Deadline.after(30))


async def refused(tls: BrokerTls, peer: Peer, name: str = NAME) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        await ask(tls, peer, name)
    assert str(caught.value).startswith(f"{peer.address}: TLS: ")
    assert "\n" not in str(caught.value)
    return caught.value


async def test_the_name_is_the_brokers_whatever_is_dialled(authority: Authority) -> None:
    tls = BrokerTls(TlsFiles(ca=authority.pem), "cluster c")
    with server(authority.server_context(NAME)) as peer:
        assert await ask(tls, peer) == b"hello"
        assert await ask(tls, peer, NAME + ".") == b"hello"
        assert await ask(tls, peer, NAME.upper()) == b"hello"


async def test_the_name_is_sent_so_that_a_proxy_can_choose_by_it(authority: Authority) -> None:
    context, seen = authority.server_context(NAME), list[str]()
    context.sni_callback = lambda sock, name, _: seen.append(name)
    with server(context) as peer:
        await ask(BrokerTls(TlsFiles(ca=authority.pem), "c"), peer)
        await ask(BrokerTls(TlsFiles(), "c", insecure=True), peer, "other.internal")
        await ask(BrokerTls(TlsFiles(ca=authority.pem), "c", server_name=ANY_NAME), peer, "third.internal")
    assert seen == [NAME, "other.internal", "third.internal"]


async def test_a_wrong_name_error_lists_expected_and_actual_names(authority: Authority) -> None:
    tls = BrokerTls(TlsFiles(ca=authority.pem), "c")
    with server(authority.server_context(NAME, "*.eu.internal", "10.1.2.3")) as peer:
        error = await refused(tls, peer, "localhost")
        assert error.reason == "tls-name"
        assert f"is for {NAME}, *.eu.internal, 10.1.2.3, not for localhost" in str(error)
        assert "--tls-server-name" in str(error)
        assert await ask(tls, peer, "10.1.2.3") == b"hello"
        assert await ask(tls, peer, "kafka-7.eu.internal") == b"hello"
        error = await refused(tls, peer, "10.1.2.4")
        assert error.reason == "tls-name"
        error = await refused(tls, peer, "." + NAME)
        assert error.reason == "tls-name"


async def test_server_name_in_the_place_of_the_brokers(authority: Authority) -> None:
    with server(authority.server_context("shared.internal")) as peer:
        assert await ask(BrokerTls(TlsFiles(ca=authority.pem), "c", server_name="shared.internal"), peer) == b"hello"
        error = await refused(BrokerTls(TlsFiles(ca=authority.pem), "c", server_name="no.internal"), peer)
        assert "not for no.internal" in str(error)


async def test_any_name_but_not_any_authority(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    tls = BrokerTls(TlsFiles(ca=authority.pem), "c", server_name=ANY_NAME)
    with server(authority.server_context("whatever.internal")) as peer:
        assert await ask(tls, peer) == b"hello"
    with server(other.server_context(NAME)) as peer:
        assert (await refused(tls, peer)).reason == "tls-untrusted"


async def test_insecure_takes_anything(authority: Authority) -> None:
    with server(authority.server_context("whatever.internal", expired=True)) as peer:
        assert await ask(BrokerTls(TlsFiles(), "c", insecure=True), peer) == b"hello"


async def test_an_unknown_authority_and_the_systems_trust_store(authority: Authority) -> None:
    with server(authority.server_context(NAME)) as peer:
        error = await refused(BrokerTls(TlsFiles(), "c"), peer)
    assert error.reason == "tls-untrusted"
    assert "--tls-ca" in str(error)


async def test_the_brokers_own_certificate_can_be_what_is_trusted(authority: Authority, tmp_path: Path) -> None:
    """As in Java: the end of the chain need not be in the trust store."""
    leaf = authority.leaf(NAME)
    pinned = tmp_path / "pinned.pem"
    leaf.cert_chain_pems[0].write_to_path(str(pinned))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    leaf.configure_cert(context)
    with server(context) as peer:
        assert await ask(BrokerTls(TlsFiles(ca=pinned), "c"), peer) == b"hello"
    with server(authority.server_context(NAME)) as peer:
        assert (await refused(BrokerTls(TlsFiles(ca=pinned), "c"), peer)).reason == "tls-untrusted"


async def test_an_expired_certificate(authority: Authority) -> None:
    with server(authority.server_context(NAME, expired=True)) as peer:
        error = await refused(BrokerTls(TlsFiles(ca=authority.pem), "c"), peer)
    assert error.reason == "tls-expired"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=lambda v: v.name)
async def test_versions(authority: Authority, version: ssl.TLSVersion) -> None:
    context = authority.server_context(NAME)
    context.minimum_version = context.maximum_version = version
    with server(context) as peer:
        assert await ask(BrokerTls(TlsFiles(ca=authority.pem), "c"), peer) == b"hello"


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated:DeprecationWarning")
async def test_an_old_version(authority: Authority) -> None:
    context = authority.server_context(NAME)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with server(context) as peer:
        error = await refused(BrokerTls(TlsFiles(ca=authority.pem), "c"), peer)
    assert error.reason == "tls-version"
    assert "1.2" in str(error)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=lambda v: v.name)
async def test_a_broker_that_requires_a_certificate(
    authority: Authority, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    context = authority.server_context(NAME, require=True)
    context.minimum_version = context.maximum_version = version
    cert, key = authority.files("client-7")
    with server(context) as peer:
        assert await ask(BrokerTls(TlsFiles(ca=authority.pem, cert=cert, key=key), "c"), peer) == b"hello"
        without = BrokerTls(TlsFiles(ca=authority.pem), "c")
        if version is ssl.TLSVersion.TLSv1_2:
            assert (await refused(without, peer)).reason in ("tls-client-certificate", "tls")
        else:  # the broker says it after the handshake
            host, _, port = peer.address.partition(":")
            sock = await open_to(without, Address(host, int(port)))
            with sock, pytest.raises(ssl.SSLError, match=r"(?i)certificate.required"):
                await Stream(sock).receive(1)


async def test_what_answers_does_not_speak_tls(authority: Authority) -> None:
    def http(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    def hangs_up(connection: socket.socket) -> None:
        connection.recv(65536)

    tls = BrokerTls(TlsFiles(ca=authority.pem), "c")
    with Peer(http) as peer:
        assert (await refused(tls, peer)).reason == "tls-plaintext"
    with Peer(hangs_up) as peer:
        error = await refused(tls, peer)
    assert error.reason == "tls-closed"
    assert "PLAINTEXT" in str(error)


async def test_what_says_nothing(authority: Authority) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = Address(*silent.getsockname())

        async def connect() -> socket.socket:
            sock = socket.create_connection((address.host, address.port))
            sock.setblocking(False)
            return sock

        with pytest.raises(UpstreamError, match="no answer to the handshake") as caught:
            await BrokerTls(TlsFiles(ca=authority.pem), "c").open(connect, address, NAME, Deadline.after(0.05))
    assert caught.value.reason == "timeout"


# Files


def pkcs12_of(leaf: trustme.LeafCert, password: bytes | None) -> bytes:
    key = load_pem_private_key(leaf.private_key_pem.bytes(), None)
    own, *above = (load_pem_x509_certificate(pem.bytes()) for pem in leaf.cert_chain_pems)
    how = BestAvailableEncryption(password) if password else NoEncryption()
    return pkcs12.serialize_key_and_certificates(b"me", key, own, above, how)  # type: ignore[arg-type]  # any key


@pytest.mark.parametrize("kind", ["two files", "one file", "encrypted", "pkcs12", "pkcs12 without password"])
async def test_certificate_and_key_as_users_have_them(
    authority: Authority, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    password: str | None = "sesam-öffne" if kind in ("encrypted", "pkcs12") else None
    key_file: Path | None = None
    if kind == "two files":
        cert, key_file = authority.files("client-7")
    elif kind == "one file":
        cert = authority.one_file("client-7")
    elif kind == "encrypted":
        cert, key_file = authority.files("client-7")
        assert password
        key = load_pem_private_key(key_file.read_bytes(), None)
        how = BestAvailableEncryption(password.encode())
        key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how))
    else:
        cert = tmp_path / "client.p12"
        cert.write_bytes(pkcs12_of(authority.leaf("client-7"), password.encode() if password else None))
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    tls = BrokerTls(TlsFiles(ca=authority.pem, cert=cert, key=key_file, key_password=password), "c")
    assert not list(temporary.iterdir()), "a key is left in a file"
    with server(authority.server_context(NAME, require=True)) as peer:
        assert await ask(tls, peer) == b"hello"


async def test_a_key_store_where_files_in_memory_do_not_exist(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """macOS, Windows: a file for an instant, encrypted."""
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    cert = tmp_path / "client.p12"
    cert.write_bytes(pkcs12_of(authority.leaf("client-7"), b"pw"))
    tls = BrokerTls(TlsFiles(ca=authority.pem, cert=cert, key_password="pw"), "c")
    assert not list((tmp_path / "tmp").iterdir())
    with server(authority.server_context(NAME, require=True)) as peer:
        assert await ask(tls, peer) == b"hello"


async def test_a_trusted_certificate_in_der(authority: Authority, tmp_path: Path) -> None:
    der = tmp_path / "ca.der"
    der.write_bytes(ssl.PEM_cert_to_DER_cert(authority.pem.read_text()))
    with server(authority.server_context(NAME)) as peer:
        assert await ask(BrokerTls(TlsFiles(ca=der), "c"), peer) == b"hello"


# What sets a password, at the end of each error about one.
TRUST = "; set it with KPROXY_TLS_CA_PASSWORD, or tls-ca-password in a file (-c FILE)"
OWN = "; set it with KPROXY_TLS_KEY_PASSWORD, or tls-key-password in a file (-c FILE)"


def test_passwords_towards_clients(authority: Authority, tmp_path: Path) -> None:
    store = tmp_path / "store.p12"
    store.write_bytes(pkcs12_of(authority.leaf("kproxy"), b"right"))
    with pytest.raises(ConfigError) as caught:
        ClientTls(TlsFiles(cert=store, key_password="wrong", ca=store), "c")
    ca, cert = caught.value.problems
    assert cert.endswith("; set it with KPROXY_CLIENT_TLS_KEY_PASSWORD, or client-tls-key-password in a file (-c FILE)")
    assert ca.startswith(f"--client-tls-ca {store}: the password is not given")
    assert ca.endswith("; kproxy cannot read a password for this file: give the certificates as PEM")


def test_the_java_key_store_too(authority: Authority, tmp_path: Path) -> None:
    store = tmp_path / "store.jks"
    pem = ["-file", authority.pem, "-alias", "ca", "-noprompt"]
    keytool("-importcert", *pem, "-keystore", store, "-storetype", "JKS", "-storepass", "right-1")
    with pytest.raises(ConfigError) as caught:
        BrokerTls(TlsFiles(ca=store, ca_password="wrong"), "c")
    assert str(caught.value).endswith("the password is wrong, or the file is damaged" + TRUST)
    with pytest.raises(ConfigError) as caught:
        BrokerTls(TlsFiles(cert=store), "c")
    assert str(caught.value).endswith("the password is not given" + OWN)


def test_files_that_are_no_good(authority: Authority, tmp_path: Path) -> None:
    cert, key = authority.files("client-7")
    _, other_key = authority.files("client-8")
    junk, jceks, store, locked = (tmp_path / name for name in ("junk", "jceks", "store.p12", "locked.key"))
    junk.write_bytes(b"\x30\x82 nothing")
    jceks.write_bytes(b"\xce\xce\xce\xce\0\0\0\2")
    store.write_bytes(pkcs12_of(authority.leaf("client-7"), b"right"))
    how = BestAvailableEncryption(b"right")
    locked.write_bytes(
        load_pem_private_key(key.read_bytes(), None).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how)
    )
    for files, words in [
        (
            TlsFiles(ca=tmp_path / "none.pem"),
            "--tls-ca {}/none.pem: cannot be read: No such file or directory",
        ),
        (TlsFiles(ca=key), "--tls-ca {}/client-7.key: has no certificate; allowed: PEM, DER, PKCS #12, JKS"),
        (TlsFiles(ca=junk), "--tls-ca {}/junk: has no certificate; allowed: PEM, DER, PKCS #12, JKS"),
        (TlsFiles(ca=jceks), "--tls-ca {}/jceks: is a JCEKS file: convert it with keytool"),
        (TlsFiles(ca=store), "--tls-ca {}/store.p12: the password is not given, or the file is damaged" + TRUST),
        (
            TlsFiles(ca=store, ca_password="wrong"),
            "--tls-ca {}/store.p12: the password is wrong, or the file is damaged" + TRUST,
        ),
        (TlsFiles(cert=store, key_password="wrong"), "the password is wrong, or the file is damaged" + OWN),
        (TlsFiles(cert=store), "--tls-cert {}/store.p12: the password is not given, or the file is damaged" + OWN),
        (
            TlsFiles(cert=store, key=key, key_password="right"),
            "--tls-cert {}/store.p12: is not PEM, so it must contain the key",
        ),
        (TlsFiles(cert=cert), "--tls-cert {}/client-7.pem: {}/client-7.pem has no private key"),
        (TlsFiles(cert=cert, key=other_key), "--tls-cert {}/client-7.pem: the key of {}/client-8.key does not belong"),
        (
            TlsFiles(cert=cert, key=locked),
            "--tls-cert {}/client-7.pem: {}/locked.key is encrypted, and its password is not given" + OWN,
        ),
        (
            TlsFiles(cert=cert, key=locked, key_password="x"),
            "{}/locked.key is encrypted, and its password is wrong" + OWN,
        ),
        (TlsFiles(cert=key, key=key), "--tls-cert {}/client-7.key: has no certificate, or a damaged one"),
        (TlsFiles(cert=junk), "--tls-cert {}/junk: has no key and certificate"),
    ]:
        with pytest.raises(ConfigError) as caught:
            BrokerTls(files, "c")
        assert words.replace("{}", str(tmp_path)) in str(caught.value)
        assert "\n" not in str(caught.value)


async def test_files_that_change_are_read_again(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    # As Kubernetes mounts them: the file is a link through a link, and it is the inner one that is exchanged.
    other = Authority(tmp_path, "other")
    for version, one in (("v1", authority), ("v2", other)):
        (tmp_path / version).mkdir()
        shutil.copy(one.pem, tmp_path / version / "ca.crt")
    (tmp_path / "data").symlink_to("v1")
    (tmp_path / "ca.crt").symlink_to("data/ca.crt")

    def swap(version: str) -> None:
        (tmp_path / "new").symlink_to(version)
        (tmp_path / "new").rename(tmp_path / "data")

    tls = BrokerTls(TlsFiles(ca=tmp_path / "ca.crt"), "cluster c")
    with server(other.server_context(NAME)) as peer:
        assert (await refused(tls, peer)).reason == "tls-untrusted"
        swap("v2")
        assert await ask(tls, peer) == b"hello"
        assert "cluster c: certificate files have changed; new connections use them" in caplog.text
        (tmp_path / "v2" / "ca.crt").write_text("broken")
        caplog.clear()
        assert await ask(tls, peer) == b"hello"
        assert await ask(tls, peer) == b"hello"
        assert caplog.text.count("has no certificate") == 1
        assert "new connections use the previous files" in caplog.text
        (tmp_path / "v2" / "ca.crt").unlink()
        assert await ask(tls, peer) == b"hello"
        swap("v1")
        assert (await refused(tls, peer)).reason == "tls-untrusted"


@pytest.mark.parametrize("what", ["pipe", "device", "folder", "socket", "huge"])
@pytest.mark.parametrize("which", ["ca", "cert", "key"])
async def test_what_is_put_in_the_place_of_a_file_holds_nothing_up(
    which: str, what: str, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody writes to the pipe, and the device never ends."""
    files = {name: tmp_path / f"the.{name}" for name in ("ca", "cert", "key")}
    for path, original in zip(files.values(), (authority.pem, *authority.files("client-7")), strict=True):
        shutil.copy(original, path)
    tls = BrokerTls(TlsFiles(**files), "cluster c")
    place = files[which]
    place.unlink()
    with socket.socket(socket.AF_UNIX) as bound, server(authority.server_context(NAME)) as peer:
        match what:
            case "pipe":
                os.mkfifo(place)
            case "device":
                place.symlink_to("/dev/zero")
            case "folder":
                place.mkdir()
            case "socket":
                bound.bind(str(place))
            case "huge":
                place.touch()
                os.truncate(place, 1 << 40)
        for _ in range(2):
            assert await ask(tls, peer) == b"hello", "with the files from before"
        assert caplog.text.count("new connections use the previous files") == 1
        assert str(place) in caplog.text
        with pytest.raises(ConfigError):
            BrokerTls(TlsFiles(**files), "c")


# Clients


async def accept(tls: ClientTls, context: ssl.SSLContext, name: str = "kproxy.internal") -> tuple[bytes, str]:
    """What a client of this context sends, and its own trouble."""
    theirs, ours = connected()
    trouble: list[str] = []

    def client() -> None:
        try:
            with context.wrap_socket(theirs, server_hostname=name) as sock:
                sock.sendall(b"hello")
                sock.recv(1)
        except OSError as error:
            trouble.append(str(error))
        finally:
            theirs.close()

    thread = in_thread(client)
    try:
        with await tls.accept(ours) as sock:
            return await Stream(sock).receive(100), "".join(trouble)
    finally:
        await asyncio.to_thread(thread.join, 30)


async def test_clients(authority: Authority) -> None:
    cert, key = authority.files("kproxy.internal")
    tls = ClientTls(TlsFiles(cert=cert, key=key), "c")
    assert await accept(tls, authority.client_context()) == (b"hello", "")
    assert await accept(tls, authority.client_context("user-7")) == (b"hello", "")


async def test_clients_must_show_a_certificate(authority: Authority, tmp_path: Path) -> None:
    cert, key = authority.files("kproxy.internal")
    other = Authority(tmp_path, "other")
    tls = ClientTls(TlsFiles(ca=authority.pem, cert=cert, key=key), "c")
    assert await accept(tls, authority.client_context("user-7")) == (b"hello", "")
    stranger = authority.client_context()
    other.leaf("user-8").configure_cert(stranger)
    for context in (authority.client_context(), stranger):
        with pytest.raises(WireError, match=r"^TLS: the client") as caught:
            await accept(tls, context)
        assert caught.value.reason == "client-tls-certificate"


async def test_a_client_that_does_not_trust_kproxy(authority: Authority, tmp_path: Path) -> None:
    cert, key = authority.files("kproxy.internal")
    tls = ClientTls(TlsFiles(cert=cert, key=key), "c")
    with pytest.raises(WireError, match="check --client-tls-cert") as caught:
        await accept(tls, Authority(tmp_path, "other").client_context())
    assert caught.value.reason == "client-tls-refused"
    assert "a CA that it does not know" in str(caught.value)


async def test_a_client_that_stops_in_its_handshake(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.net.tls.handshakes._CLIENT_TIMEOUT", 0.05)
    cert, key = authority.files("kproxy.internal")
    theirs, ours = connected()
    with theirs:
        theirs.sendall(b"\x16\x03\x01")
        with pytest.raises(WireError) as caught:
            await ClientTls(TlsFiles(cert=cert, key=key), "c").accept(ours)
        assert caught.value.reason == "client-tls-timeout"
        assert theirs.recv(1) == b""
