"""A certificate authority for tests, its files, and TLS peers."""

from __future__ import annotations

import datetime
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


class Authority:
    """A CA with a directory for its files."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        self.ca = trustme.CA()
        self.directory = directory
        self.pem = directory / f"{name}.pem"
        self.ca.cert_pem.write_to_path(str(self.pem))

    def leaf(self, *names: str, expired: bool = False, future: bool = False) -> trustme.LeafCert:
        """Return a certificate for these names, or for a client of that name."""
        past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
        to_come = past + datetime.timedelta(days=2)
        not_before = to_come if future else None
        return self.ca.issue_cert(*names, not_before=not_before, not_after=past if expired else None)

    def files(self, *names: str, expired: bool = False) -> tuple[Path, Path]:
        """Create the files of a certificate with its chain, and of its key."""
        leaf = self.leaf(*names, expired=expired)
        cert, key = self.directory / f"{names[0]}.pem", self.directory / f"{names[0]}.key"
        cert.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
        key.write_bytes(leaf.private_key_pem.bytes())
        return cert, key

    def one_file(self, *names: str) -> Path:
        """Create one PEM file with both."""
        cert, key = self.files(*names)
        both = self.directory / f"{names[0]}-both.pem"
        both.write_bytes(key.read_bytes() + cert.read_bytes())
        return both

    def client(self, user: str) -> Path:
        """Create one PEM file of a client whose subject begins with CN=`user`, as all clients read it."""
        leaf = self.ca.issue_cert("client.example", common_name=user)
        key: Any = load_pem_private_key(leaf.private_key_pem.bytes(), None)
        path = self.directory / f"client-{user}.pem"
        encoded = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        path.write_bytes(encoded + b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
        return path

    def pkcs12(self, password: str, *names: str, expired: bool = False, file: str = "") -> Path:
        """Create a PKCS #12 key store with a new certificate for these names, as Java reads it."""
        leaf = self.leaf(*names, expired=expired)
        key: Any = load_pem_private_key(leaf.private_key_pem.bytes(), None)
        own, *above = (load_pem_x509_certificate(pem.bytes()) for pem in leaf.cert_chain_pems)
        how = BestAvailableEncryption(password.encode())
        store = self.directory / f"{file or names[0]}.p12"
        store.write_bytes(pkcs12.serialize_key_and_certificates(b"key", key, own, above, how))
        return store

    def server_context(self, *names: str, expired: bool = False, require: bool = False) -> ssl.SSLContext:
        """Return a context for a server of these names; `require`: clients must show a certificate of this CA."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.leaf(*names, expired=expired).configure_cert(context)
        if require:
            context.verify_mode = ssl.CERT_REQUIRED
            self.ca.configure_trust(context)
        return context

    def client_context(self, *names: str) -> ssl.SSLContext:
        """Return a context for a client that trusts this CA, with a certificate if it has a name."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.ca.configure_trust(context)
        if names:
            self.leaf(*names).configure_cert(context)
        return context


def connected() -> tuple[socket.socket, socket.socket]:
    """Return two connected TCP sockets, each with a timeout of 30 s."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ours = socket.create_connection(listening.getsockname())
        theirs, _ = listening.accept()
    for sock in (ours, theirs):
        sock.settimeout(30)
        # Else as much as the system allows, tens of MB, may wait in one, and nobody stalls.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024 * 1024)
    return ours, theirs


def in_thread(work: Callable[[], object]) -> threading.Thread:
    """Start a thread and return it."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def keytool(*args: object) -> None:
    """Run Java's keytool; skip the test if it is not installed."""
    program = shutil.which("keytool")
    if program is None:
        pytest.skip("keytool is not installed")
    subprocess.run([program, *map(str, args)], check=True, capture_output=True)
