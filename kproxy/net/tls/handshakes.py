"""TLS towards brokers and towards clients: contexts that follow their files, and handshakes.

TLS 1.2 and 1.3. Each new connection checks the files, and loads them again if one of them was replaced or has changed;
open connections stay as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kproxy.base.address import Address
from kproxy.base.errors import ConfigError, UpstreamError, WireError
from kproxy.base.format import abbreviate
from kproxy.base.messages.reachability import CERTIFICATE_NAME, HANDSHAKE_TIMEOUT
from kproxy.base.messages.sessions import CLIENT_HANDSHAKE_TIMEOUT
from kproxy.net.dial.connector import Deadline, DialStepKind
from kproxy.net.dial.stream import retry_when_ready
from kproxy.net.tls import faults
from kproxy.net.tls.jks import WrongPassword
from kproxy.net.tls.stores import load_identity, load_trust
from kproxy.net.tls.tlssocket import TlsSocket, record_server_name

log = logging.getLogger(__name__)

# The server name that accepts any name in the certificate.
ANY_NAME = "*"
# The time limit of a client's handshake, in seconds.
_CLIENT_TIMEOUT = 10.0

Connect = Callable[[], Awaitable[socket.socket]]


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files of one side, and their passwords.

    None means not given. `key_password` is also the password of a key store.
    """

    ca: Path | None = None
    ca_password: str | None = None
    cert: Path | None = None
    key: Path | None = None
    key_password: str | None = None


class TlsFilesError(ConfigError):
    """Files that cannot be used: `option_problems` has the option key and the problem of each."""

    def __init__(self, problems: Sequence[tuple[str, str]]) -> None:
        self.option_problems = problems
        super().__init__(*(f"--{key} {text}" for key, text in problems))


class _Tls(ABC):
    """The TLS context of one side, loaded again when its files change.

    `prefix` is the beginning of the keys of its options. Raises TlsFilesError.
    """

    def __init__(self, files: TlsFiles, prefix: str, owner: str) -> None:
        self._files = files
        self._prefix = prefix
        self._owner = owner
        self._loaded_states = self._file_states()
        self._context = self._load_context()

    @abstractmethod
    def _new_context(self) -> ssl.SSLContext: ...

    def _load_context(self) -> ssl.SSLContext:
        context = self._new_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        # As in Java, a certificate is trusted because it was given, whether it stands at the end of a chain or not.
        context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
        files = self._files
        problems = []
        if files.ca is not None:
            try:
                load_trust(context, files.ca, files.ca_password)
            except ValueError as error:
                problems.append(
                    (f"{self._prefix}-ca", f"{files.ca}: {error}{self._password_hint(error, 'ca-password')}")
                )
        if files.cert is not None:
            try:
                load_identity(context, files.cert, files.key, files.key_password)
            except ValueError as error:
                problems.append(
                    (f"{self._prefix}-cert", f"{files.cert}: {error}{self._password_hint(error, 'key-password')}")
                )
        if problems:
            raise TlsFilesError(problems)
        return context

    def _password_hint(self, error: ValueError, option: str) -> str:
        """Return how to set the password, if the error is about one."""
        if not isinstance(error, WrongPassword):
            return ""
        key = f"{self._prefix}-{option}"
        if key == "client-tls-ca-password":
            return "; kproxy cannot read a password for this file: give the certificates as PEM"
        return f"; set it with KPROXY_{key.upper().replace('-', '_')}, or {key} in a file (-c FILE)"

    def current(self) -> ssl.SSLContext:
        """Return the context of the current files, or of the previous ones if the current ones cannot be used."""
        state = self._file_states()
        if state != self._loaded_states:
            self._loaded_states = state
            try:
                self._context = self._load_context()
                log.info("%s: certificate files have changed; new connections use them", self._owner)
            except ConfigError as error:
                log.error("%s: %s; new connections use the previous files", self._owner, error)
        return self._context

    def _file_states(self) -> list[tuple[int, int, int] | None]:
        """Return a value that changes with the files, also where they are links to others (as in Kubernetes)."""
        state: list[tuple[int, int, int] | None] = []
        for path in (self._files.ca, self._files.cert, self._files.key):
            try:
                status = None if path is None else os.stat(path)
            except OSError:
                status = None
            state.append(None if status is None else (status.st_mtime_ns, status.st_ino, status.st_size))
        return state


class BrokerTls(_Tls):
    """TLS towards the brokers of one cluster.

    Every broker's certificate must have `server_name`, if given, instead of the broker's own name; ANY_NAME accepts any
    name. `insecure` accepts any certificate.
    """

    def __init__(self, files: TlsFiles, owner: str, *, server_name: str | None = None, insecure: bool = False) -> None:
        self._server_name = server_name
        self._insecure = insecure
        super().__init__(files, "tls", owner)

    def _new_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = not self._insecure and self._server_name != ANY_NAME
        if self._insecure:
            context.verify_mode = ssl.CERT_NONE
        elif self._files.ca is None:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return context

    async def open(self, connect: Connect, dialled: Address, name: str, deadline: Deadline) -> TlsSocket:
        """Connect to `dialled`, and make the TLS handshake. `name` is the broker's. Raises UpstreamError."""
        # A name may end in a dot, to be absolute; no certificate has one.
        expected = (name if self._server_name in (None, ANY_NAME) else str(self._server_name)).removesuffix(".")
        sock = await connect()
        with deadline.step(DialStepKind.TLS, expected):
            try:
                return await self._secure(sock, connect, expected, deadline)
            except UpstreamError as error:
                raise UpstreamError(error.reason, f"{dialled}: {error}") from None

    async def _secure(self, sock: socket.socket, connect: Connect, expected: str, deadline: Deadline) -> TlsSocket:
        try:
            async with deadline.timeout():
                return await _handshake(sock, self.current(), expected)
        except TimeoutError:
            reason, text = HANDSHAKE_TIMEOUT.with_reason(seconds=deadline.seconds)
        except OSError as error:
            reason, text = faults.explain_broker_error(error)
            if faults.is_wrong_name(error):
                text = _wrong_name(expected, await self._names(connect, expected, deadline))
        except ValueError:
            text = f"TLS: '{expected}' cannot be a name in a certificate: set the right name with --tls-server-name"
            reason = "tls-name"
        raise UpstreamError(reason, text)

    async def _names(self, connect: Connect, expected: str, deadline: Deadline) -> list[str]:
        """Return the names in the certificate of a broker that has the wrong one.

        OpenSSL returns them only if it does not compare them.
        """
        try:
            context = self._load_context()
            context.check_hostname = False
            async with deadline.timeout():
                with await _handshake(await connect(), context, expected) as tls:
                    return tls.peer_names()
        except (UpstreamError, ConfigError, OSError, TimeoutError):
            return []


def _wrong_name(expected: str, names: list[str]) -> str:
    return CERTIFICATE_NAME(shown=abbreviate(names) or "another name", expected=expected)


class AdminTls(_Tls):
    """TLS towards the clients of the admin endpoint, which makes the handshakes itself."""

    def __init__(self, files: TlsFiles) -> None:
        super().__init__(files, "admin-tls", "admin")

    def _new_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        return context


class ClientTls(_Tls):
    """TLS towards the clients of one cluster. With `files.ca`, each must show a certificate of that CA."""

    def __init__(self, files: TlsFiles, owner: str) -> None:
        super().__init__(files, "client-tls", owner)

    def _new_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if self._files.ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
        context.sni_callback = record_server_name
        return context

    def names(self) -> list[str]:
        """Return the host names in the certificate that kproxy shows to clients; none if it cannot be read."""
        return _read_own_names(self.current())

    async def accept(self, sock: socket.socket) -> TlsSocket:
        """Make the TLS handshake with a client. Raises WireError if the client is at fault."""
        try:
            async with asyncio.timeout(_CLIENT_TIMEOUT):
                return await _handshake(sock, self.current(), None)
        except TimeoutError:
            raise WireError(*CLIENT_HANDSHAKE_TIMEOUT.with_reason(seconds=_CLIENT_TIMEOUT)) from None
        except OSError as error:
            raise WireError(*faults.explain_client_error(error)) from None


async def _handshake(sock: socket.socket, context: ssl.SSLContext, host: str | None) -> TlsSocket:
    """Make a handshake. Raises OSError, or ValueError if `host` is not a valid name.

    If it fails, the connection is closed.
    """
    try:
        tls = TlsSocket(sock, context, server_side=host is None, host=host)
    except BaseException:
        sock.close()
        raise
    try:
        await retry_when_ready(tls, tls.do_handshake)
    except BaseException:
        tls.close()
        raise
    return tls


def _read_own_names(context: ssl.SSLContext) -> list[str]:
    """Return the names in the certificate of a server's context, by a handshake in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    client = trusting.wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client):
        with contextlib.suppress(ssl.SSLError):
            side.do_handshake()
    der = client.getpeercert(binary_form=True)
    return [] if der is None else certificate_names(der)


def certificate_names(der: bytes) -> list[str]:
    """Return the host names and addresses in a certificate: its subject's, if it has no others.

    Return none if the certificate cannot be read.
    """
    from cryptography import x509  # few users need it

    try:
        certificate = x509.load_der_x509_certificate(der)
        try:
            alternative = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return [
                str(attribute.value)
                for attribute in certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
            ]
        names = alternative.get_values_for_type(x509.DNSName)
        return [*names, *(str(address) for address in alternative.get_values_for_type(x509.IPAddress))]
    except ValueError:  # a certificate that OpenSSL accepts and cryptography does not
        return []
