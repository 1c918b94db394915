"""A client of the admin endpoint of another kproxy, for commands that ask it or control it.

It imports little, so that such a command starts fast. The server may be any program: the reply is bounded in size and
time, and shown escaped. A reply without kproxy's mark is an error, whatever its status.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from kproxy.base.address import Address
from kproxy.base.errors import AdminError
from kproxy.base.messages.start import NO_KPROXY_ANSWERS
from kproxy.base.printable import one_line
from kproxy.net.socketdeadline import SocketDeadline
from kproxy.proxy.admin.requests import ACCEPT_CLUSTER, MARK

SECONDS = 5.0
"""The time for one reply."""
MAX_REPLY = 32 * 1024 * 1024
"""The most bytes of one reply: /status of the largest cluster has a few MiB."""
LONGEST_JSON_LINE = 1024 * 1024
_MOST_TEXT = 64 * 1024
_LONGEST_PAGE = 60.0  # seconds for a page of lines
_ASK_AGAIN = 0.1
# Even if less time is left, a reply may take this many seconds: a handshake on a busy machine takes tenths.
_LEAST = 1.0
# A page without an end sends something every few seconds.
_SILENT = 20.0
_LONGEST_LINE = 1000
# A part of the reply of a kproxy that speaks HTTPS to a client that does not.
_NEEDS_TLS = b"speaks HTTPS only"
# Wildcard addresses that --admin of `kproxy run` may have, and the addresses to connect to then.
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def tls_context(ca: Path | None, password: str | None = None) -> ssl.SSLContext:
    """Return a TLS context that trusts the certificates in this file; None: those of the system.

    Raises ValueError with one line if the file cannot be used.
    """
    from kproxy.net.tls.stores import load_trust  # few need it

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    if ca is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        load_trust(context, ca, password)
    return context


@dataclass(frozen=True, slots=True)
class _HttpReply:
    status: int
    content_type: str
    body: bytes

    @property
    def lines(self) -> list[str]:
        text = self.body[:_MOST_TEXT].decode(errors="replace")
        return [one_line(line, _LONGEST_LINE) for line in text.splitlines()]


class AdminClient:
    """A client of the kproxy whose admin endpoint is at `address`. Each request has its own connection."""

    def __init__(
        self,
        address: Address,
        token: str | None = None,
        seconds: float = SECONDS,
        tls: ssl.SSLContext | None = None,
        server_name: str = "",
    ) -> None:
        """Make a client; with `tls` it uses HTTPS.

        `server_name` is the name in the certificate, if it is not the address's. Raises ValueError, without the token
        in its text, if the token cannot be one.
        """
        if token is not None and not re.fullmatch("[!-~]+", token):
            raise ValueError("the token is empty, or has characters that no token has")
        self.address = address
        self._tls = tls
        self._server_name = server_name or _WILDCARDS.get(address.host, address.host)
        self._token = token
        self._seconds = seconds

    def get(self, path: str, query: Mapping[str, str] | None = None) -> object:
        """Return the JSON value of a page. Raises AdminError."""
        target = f"{path}?{urlencode(query)}" if query else path
        return self._json(self._ask("GET", target, None, self._seconds))

    def post(self, path: str, value: object, also: Collection[int] = (), seconds: float | None = None) -> object:
        """Send a JSON value, and return the JSON value of the reply, which may take `seconds`.

        `also` are further allowed statuses. Raises AdminError.
        """
        return self._json(self._ask("POST", path, json.dumps(value).encode(), seconds or self._seconds), also)

    def stream(self, path: str, query: Mapping[str, str], longest: int = _MOST_TEXT) -> Iterator[bytes]:
        """Yield the lines of a page without an end, of at most `longest` bytes each.

        Raises AdminError if the page cannot be read, or ends.
        """
        host = _WILDCARDS.get(self.address.host, self.address.host)
        connection = http.client.HTTPConnection(host, self.address.port, timeout=_SILENT)
        headers = {} if self._token is None else {"Authorization": f"Bearer {self._token}"}
        try:
            connection.connect()
            if self._tls is not None:
                connection.sock = self._tls.wrap_socket(connection.sock, server_hostname=self._server_name)
            connection.request("GET", f"{path}?{urlencode(query)}", headers=headers)
            with connection.getresponse() as response:
                self._check_mark(response)
                if response.status != 200:
                    kind = response.headers.get_content_type()
                    raise AdminError(
                        self._refusal(_HttpReply(response.status, kind, response.read(_MOST_TEXT))), response.status
                    )
                while line := response.readline(longest):
                    yield line
        except (OSError, http.client.HTTPException) as error:
            raise AdminError(NO_KPROXY_ANSWERS(address=self.address, error=self._why(error))) from None
        finally:
            connection.close()
        raise AdminError(f"kproxy at {self.address} (--admin) has ended the connection")

    def read_lines(self, path: str, longest: int = LONGEST_JSON_LINE) -> list[Mapping[str, Any]]:
        """Return the JSON objects of a page of lines that ends with a line `{"end": N}`, for N lines behind the first.

        Raises AdminError if the page cannot be read whole, or has more than MAX_REPLY bytes.
        """
        lines: list[Mapping[str, Any]] = []
        size = 0
        deadline = time.monotonic() + _LONGEST_PAGE
        try:
            for line in self.stream(path, {}, longest):
                size += len(line)
                if size > MAX_REPLY or time.monotonic() > deadline:
                    raise self._not_kproxy(f"its answer is larger than {MAX_REPLY} bytes, or takes too long")
                value = json.loads(line)
                if not isinstance(value, dict):
                    raise ValueError
                if "end" in value:
                    if value["end"] != len(lines) - 1:
                        raise ValueError
                    return lines
                lines.append(value)
        except (ValueError, RecursionError):
            raise self._not_kproxy("its answer has other lines than those of a record") from None
        raise AssertionError("a page that ends early raises AdminError")

    def reload(self, seconds: float, accept: str | None = None) -> tuple[bool, Sequence[str]]:
        """Request a reload; return whether all of it was done, and the lines of the reply.

        `accept`: a cluster; if another Kafka cluster has taken its place, kproxy serves that one from then on. Raises
        AdminError.
        """
        target = "/reload" if accept is None else f"/reload?{urlencode({ACCEPT_CLUSTER: accept})}"
        answer = self._ask("POST", target, None, seconds)
        if answer.status == 404 and any("/readyz" in line for line in answer.lines):  # kproxy names the pages it has
            way_out = "start it with --admin-reload, or send it SIGHUP"
            if accept is not None:
                way_out = "restart it, and it serves the cluster that answers then; or start it with --admin-reload"
            raise AdminError(f"kproxy at {self.address} (--admin) does not accept reload requests: {way_out}", 404)
        if answer.status not in (200, 400) or not answer.lines:
            raise AdminError(self._refusal(answer), answer.status)
        return answer.status == 200, answer.lines

    def wait_ready(self, seconds: float, requires: str) -> Sequence[str]:
        """Ask until kproxy is ready, for at most `seconds`; return why it is not, a line each.

        `requires`: all, one or none of each cluster's nodes. The result is empty if kproxy is ready.
        """
        deadline = time.monotonic() + seconds
        while reasons := self._not_ready(requires, min(self._seconds, max(_LEAST, deadline - time.monotonic()))):
            if time.monotonic() >= deadline:
                break
            time.sleep(min(_ASK_AGAIN, max(0.0, deadline - time.monotonic())))
        return reasons

    def why_not_ready(self, requires: str) -> Sequence[str]:
        """Ask once whether kproxy is ready; return why it is not, a line each."""
        return self._not_ready(requires, self._seconds)

    def _not_ready(self, requires: str, seconds: float) -> Sequence[str]:
        try:
            answer = self._ask("GET", f"/readyz?{urlencode({'requires': requires})}", None, seconds)
        except AdminError as error:
            return [str(error)]
        if answer.status == 400 and _NEEDS_TLS in answer.body:
            return [self._refusal(answer)]
        if answer.status == 503:
            return answer.lines or ["not ready"]
        if answer.status != 200:
            return [self._refusal(answer)]
        return [] if answer.lines[:1] == ["ok"] else [str(self._not_kproxy("it does not say ok"))]

    def _ask(self, method: str, target: str, body: bytes | None, seconds: float) -> _HttpReply:
        host = _WILDCARDS.get(self.address.host, self.address.host)
        headers = {"Accept": "application/json, text/plain", "Connection": "close"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        connection = http.client.HTTPConnection(host, self.address.port, timeout=seconds)
        deadline = SocketDeadline(seconds)
        try:
            connection.connect()
            with deadline.applied_to(connection.sock):
                if self._tls is not None:
                    tls = self._tls.wrap_socket(
                        connection.sock, server_hostname=self._server_name, do_handshake_on_connect=False
                    )
                    connection.sock = deadline.sock = tls
                    tls.do_handshake()
                connection.request(method, target, body, headers)
                with connection.getresponse() as response:
                    self._check_mark(response)
                    received = response.read(MAX_REPLY + 1)
                    if deadline.has_passed or (len(received) <= MAX_REPLY and response.length):
                        raise http.client.IncompleteRead(b"")
        except (OSError, http.client.HTTPException) as error:
            # The socket's own limit and the deadline may end together.
            late = deadline.has_passed or isinstance(error, TimeoutError)
            why = f"no complete answer within {seconds:g} s" if late else self._why(error)
            raise AdminError(NO_KPROXY_ANSWERS(address=self.address, error=why)) from None
        finally:
            connection.close()
        if len(received) > MAX_REPLY:
            raise self._not_kproxy(f"its answer is larger than {MAX_REPLY} bytes")
        return _HttpReply(response.status, response.headers.get_content_type(), received)

    def _json(self, answer: _HttpReply, also: Collection[int] = ()) -> object:
        if not 200 <= answer.status < 300 and answer.status not in also:
            raise AdminError(self._refusal(answer), answer.status)
        try:
            if answer.content_type != "application/json":
                raise ValueError
            value: object = json.loads(answer.body.decode())
        except (ValueError, RecursionError):
            raise self._not_kproxy("its answer is not JSON") from None
        return value

    def _refusal(self, answer: _HttpReply) -> str:
        """Return what to do about a reply that is an error; kproxy's own text comes last."""
        text = answer.lines[0] if answer.lines else f"HTTP {answer.status}"
        server = f"kproxy at {self.address} (--admin)"
        if answer.status == 400 and _NEEDS_TLS in answer.body:
            return f"{server} speaks HTTPS only: give --admin https://{self.address}, and --admin-ca FILE if need be"
        if answer.status == 401 and self._token is None:
            return f"{server} requires a token: give it with --admin-token-file FILE or KPROXY_ADMIN_TOKEN"
        if answer.status == 401:
            return (
                f"{server} refuses this token (--admin-token-file, KPROXY_ADMIN_TOKEN): give the one it was started"
                " with"
            )
        if answer.status == 421:
            way_out = f"give its IP address, or start it with --admin-host {self.address.host}"
            return f"{server} does not accept that host name: {way_out}"
        if answer.status == 404:
            return f"{server} has no such page; it may be an older kproxy. It says: {text}"
        return f"{server} refuses: {text}"

    def _why(self, error: Exception) -> str:
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"TLS: its certificate is not good: {error.verify_message}; --admin-ca FILE says whom to trust"
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
            return f"TLS: {(error.reason or 'failed').replace('_', ' ').lower()}; it may speak plain HTTP only"
        return _why(error)

    def _check_mark(self, response: http.client.HTTPResponse) -> None:
        """Raise AdminError if the reply is not one of kproxy: many servers answer 200 to any request."""
        if MARK not in response.headers:
            raise self._not_kproxy(
                f"its answer (HTTP {response.status}) has no header {MARK}, which a proxy in between must pass on"
            )

    def _not_kproxy(self, what: str) -> AdminError:
        return AdminError(f"the server at {self.address} (--admin) is not kproxy: {what}")


def _why(error: Exception) -> str:
    if isinstance(error, http.client.HTTPException) and not isinstance(error, OSError):
        # Its own text may repeat what was sent.
        return "it does not speak HTTP, or closed the connection early"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
