"""A client of one schema registry, with Confluent's REST API: JSON over HTTP.

https://docs.confluent.io/platform/current/schema-registry/develop/api.html
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from queue import Empty, LifoQueue
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from kproxy.base.errors import ConfigError, UpstreamError
from kproxy.base.printable import one_line
from kproxy.client.sasl.secrets import read_file_blocking
from kproxy.migrate.spec.schemas_section import RegistrySection
from kproxy.net.socketdeadline import SocketDeadline
from kproxy.net.tls.stores import load_identity
from kproxy.proxy.admin.client import tls_context

REPLY_SECONDS = 20.0
"""The time for one reply."""
MAX_REPLY = 16 * 1024 * 1024
"""The most bytes of one reply: the names of 100,000 subjects have a few MiB."""
# Pauses before further attempts, in seconds.
_PAUSES = (0.5, 1.0, 2.0, 4.0)
# A registry that asks for a longer pause than this fails the request.
_LONGEST_PAUSE = 30.0
# Too many requests, and what proxies answer while a registry restarts.
_RETRIED = frozenset({429, 502, 503, 504})
_LONGEST_TEXT = 300
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"


class RegistryError(UpstreamError):
    """A registry cannot be reached, refuses a request, or returns what no registry returns.

    `status` is the HTTP status, 0 without a response. `code` is the registry's own error code, such as 40401, else the
    status.
    """

    def __init__(self, text: str, status: int = 0, code: int = 0) -> None:
        super().__init__("other", text)
        self.status, self.code = status, code or status


class RegistryClient:
    """A client of one registry; several threads may use it."""

    def __init__(self, side: str, section: RegistrySection, *, seconds: float = REPLY_SECONDS) -> None:
        """Make a client. `side`: source or target. Raises ConfigError if a file cannot be used."""
        self.name = f"the {side}'s registry {section.url}"
        self._side, self._seconds = side, seconds
        parts = urlsplit(section.url)
        self._host, self._path = parts.hostname or "", parts.path.rstrip("/")
        self._is_tls = parts.scheme == "https"
        self._port = parts.port or (443 if self._is_tls else 80)
        self._tls = _tls_context(side, section) if self._is_tls else None
        self._login = _authorization(side, section)
        self._idle: LifoQueue[http.client.HTTPConnection] = LifoQueue()

    def close(self) -> None:
        """Close the idle connections."""
        while True:
            try:
                self._idle.get_nowait().close()
            except Empty:
                return

    def __enter__(self) -> RegistryClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, *path: str | int, **query: str) -> Any:
        """Return the JSON value at a path. Raises RegistryError."""
        return self._request("GET", path, query, None)

    def find(self, *path: str | int, **query: str) -> Any:
        """Return the JSON value at a path; None if the registry has none. Raises RegistryError."""
        try:
            return self.get(*path, **query)
        except RegistryError as error:
            if error.status == 404:
                return None
            raise

    def send(self, method: str, *path: str | int, value: object = None, **query: str) -> Any:
        """Send a JSON value by PUT, POST or DELETE, and return that of the reply. Raises RegistryError."""
        return self._request(method, path, query, value)

    def _request(self, method: str, path: tuple[str | int, ...], query: Mapping[str, str], value: object) -> Any:
        target = "/".join([self._path, *(quote(str(part), safe="") for part in path)])
        target += f"?{urlencode(query)}" if query else ""
        body = None if value is None else json.dumps(value).encode()
        for pause in (*_PAUSES, None):
            try:
                status, headers, received = self._exchange(method, target, body)
            except (OSError, http.client.HTTPException) as error:
                if pause is None or isinstance(error, (ssl.SSLCertVerificationError, _TooLate, _TooLarge)):
                    raise RegistryError(f"{self.name} cannot be asked: {_why(error)}") from None
            else:
                if status not in _RETRIED or pause is None:
                    return self._value(status, headers, received)
                pause = max(pause, self._retry_after(status, headers))
            time.sleep(pause)
        raise AssertionError

    def _exchange(self, method: str, target: str, body: bytes | None) -> tuple[int, http.client.HTTPMessage, bytes]:
        """Send one request, and return the status, the headers and the body. Raises OSError and HTTPException."""
        headers = {"Accept": _ACCEPT, "User-Agent": "kproxy", **self._login}
        if body is not None:
            headers["Content-Type"] = "application/vnd.schemaregistry.v1+json"
        try:
            return self._exchange_on(self._idle.get_nowait(), method, target, body, headers)
        except (Empty, OSError, http.client.HTTPException) as error:
            if isinstance(error, (_TooLate, _TooLarge)):
                raise
        # There is no idle connection, or the server has closed it meanwhile, as servers do.
        connection = http.client.HTTPConnection(self._host, self._port, timeout=self._seconds)
        connection.connect()
        return self._exchange_on(connection, method, target, body, headers)

    def _exchange_on(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        deadline = SocketDeadline(self._seconds)
        is_done = False
        try:
            with deadline.applied_to(connection.sock):
                if self._tls is not None and not isinstance(connection.sock, ssl.SSLSocket):
                    tls = self._tls.wrap_socket(
                        connection.sock, server_hostname=self._host, do_handshake_on_connect=False
                    )
                    connection.sock = deadline.sock = tls
                    tls.do_handshake()
                connection.request(method, target, body, dict(headers))
                with connection.getresponse() as response:
                    received = response.read(MAX_REPLY + 1)
                    if len(received) > MAX_REPLY:
                        raise _TooLarge(f"its reply has more than {MAX_REPLY >> 20} MiB")
                    if response.length or deadline.has_passed:  # then the end of the bytes is no end of the reply
                        raise http.client.IncompleteRead(b"")
                    is_done = not response.will_close
                    return response.status, response.headers, received
        except (OSError, http.client.HTTPException) as error:
            if deadline.has_passed or isinstance(error, TimeoutError):
                raise _TooLate(f"no complete reply within {self._seconds:g} s") from None
            raise
        finally:
            if is_done:
                self._idle.put(connection)
            else:
                connection.close()

    def _retry_after(self, status: int, headers: http.client.HTTPMessage) -> float:
        """Return the pause that the registry asks for, in seconds. Raises RegistryError if it is too long."""
        text = headers.get("Retry-After", "0")
        seconds = float(text) if text.isascii() and text.isdecimal() else 0.0  # a date is as good as none
        if seconds > _LONGEST_PAUSE:
            raise RegistryError(
                f"{self.name} answers HTTP {status} and wants no request for {one_line(text, 10)} s: try later", status
            )
        return seconds

    def _value(self, status: int, headers: http.client.HTTPMessage, received: bytes) -> Any:
        """Return the JSON value of a reply. Raises RegistryError."""
        if 300 <= status < 400:
            place = one_line(headers.get("Location", "another place"), _LONGEST_TEXT)
            raise RegistryError(
                f"{self.name} redirects to {place}, which kproxy does not follow: correct schemas.{self._side}", status
            )
        try:
            value = json.loads(received) if received else None
        except (ValueError, RecursionError):
            value = _NO_JSON
        if 200 <= status < 300 and value is not _NO_JSON:
            return value
        raise self._refusal(status, value)

    def _refusal(self, status: int, value: object) -> RegistryError:
        fields = value if isinstance(value, dict) else {}
        code, text = fields.get("error_code"), fields.get("message")
        number = code if isinstance(code, int) and not isinstance(code, bool) else 0
        message = f": {one_line(text, _LONGEST_TEXT)}" if isinstance(text, str) and text else ""
        if status in (401, 403):
            keys = "username, password-file or token-file"
            return RegistryError(
                f"{self.name} refuses the login (HTTP {status}): correct {keys} of schemas.{self._side}{message}",
                status,
                number,
            )
        if not number and (status == 404 or 200 <= status < 300):
            return RegistryError(
                f"{self.name} is no schema registry, or has it at another path (HTTP {status} without its JSON);"
                " Apicurio has it at /apis/ccompat/v7",
                status,
            )
        return RegistryError(f"{self.name} refuses (HTTP {status}){message}", status, number)


_NO_JSON = object()


class _TooLate(OSError):
    """A reply was not complete in time."""


class _TooLarge(OSError):
    """A reply was too large."""


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: its certificate is not trusted: {error.verify_message}; ca names the certificates to trust"
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        return f"TLS: {(error.reason or 'failed').replace('_', ' ').lower()}; it may speak plain HTTP only"
    if isinstance(error, http.client.HTTPException):
        return "it does not speak HTTP, or closes connections early"  # its own text may repeat what was sent
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _authorization(side: str, section: RegistrySection) -> dict[str, str]:
    if section.token_file is not None:
        return {"Authorization": f"Bearer {_header_text(side, 'token-file', _secret(side, section.token_file))}"}
    if section.password_file is not None:
        login = f"{section.username}:{_secret(side, section.password_file)}".encode()
        return {"Authorization": f"Basic {b64encode(login).decode()}"}
    return {}


def _secret(side: str, path: Path) -> str:
    try:
        return read_file_blocking(path)
    except UpstreamError as error:
        raise ConfigError(f"schemas.{side}: {error}") from None


def _header_text(side: str, key: str, text: str) -> str:
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ConfigError(f"schemas.{side}.{key}: the file has something that is no token")
    return text


def _tls_context(side: str, section: RegistrySection) -> ssl.SSLContext:
    try:
        context = tls_context(section.ca)
    except ValueError as error:
        raise ConfigError(f"schemas.{side}.ca: {section.ca}: {error}") from None
    if section.certificate is not None:
        try:
            load_identity(context, section.certificate, section.certificate_key, None)
        except ValueError as error:
            raise ConfigError(f"schemas.{side}.certificate: {section.certificate}: {error}") from None
    return context
