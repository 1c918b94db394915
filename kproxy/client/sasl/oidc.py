"""A token by client credentials (RFC 6749 §4.4), as Kafka's clients fetch theirs (KIP-768)."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import urllib.error
import urllib.request
from base64 import b64encode
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from kproxy.base.errors import UpstreamError
from kproxy.base.messages.logins import TOKEN_ENDPOINT_FAILS, TOKEN_ENDPOINT_REFUSES, TOKEN_ENDPOINT_UNTRUSTED
from kproxy.client.sasl.blockingcalls import BlockingCalls
from kproxy.client.sasl.secrets import refresh_time
from kproxy.net.tls.stores import load_trust

# The longest silence of the token endpoint, the longest request, and the pauses between the attempts, in seconds.
_TIMEOUT, _WHOLE_TIMEOUT = 5.0, 15.0
_PAUSES = (0.25, 1.0)
_MOST = 1024 * 1024


class TokenEndpointUnavailable(UpstreamError):
    """The token endpoint cannot be reached or has an error of its own: another attempt may succeed."""


async def fetch_token(
    blocking_calls: BlockingCalls, url: str, client: str, secret: str, scope: str | None, ca: Path | None
) -> tuple[str, float]:
    """Return a token, and the time (`time.monotonic`) at which to fetch the next one. Raises UpstreamError."""
    for pause in _PAUSES:
        try:
            return await _attempt(blocking_calls, url, client, secret, scope, ca)
        except TokenEndpointUnavailable:
            await asyncio.sleep(pause)
    return await _attempt(blocking_calls, url, client, secret, scope, ca)


async def _attempt(blocking_calls: BlockingCalls, url: str, *args: str | Path | None) -> tuple[str, float]:
    try:
        return await blocking_calls.run(_WHOLE_TIMEOUT, _fetch, url, *args)
    except TimeoutError:
        raise TokenEndpointUnavailable(
            "sasl", f"the token endpoint {url} has not sent its whole answer within {_WHOLE_TIMEOUT:g} s"
        ) from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A handler that follows no redirect: the secret is for one address."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _fetch(url: str, client: str, secret: str, scope: str | None, ca: Path | None) -> tuple[str, float]:
    form = {"grant_type": "client_credentials", **({"scope": scope} if scope else {})}
    # As Kafka's clients do, not form-encoded as RFC 6749 §2.3.1 has it: few servers decode it.
    login = b64encode(f"{client}:{secret}".encode()).decode()
    headers = {"Authorization": f"Basic {login}", "Accept": "application/json", "User-Agent": "kproxy"}
    request = urllib.request.Request(url, urlencode(form).encode(), headers)
    trust = urllib.request.HTTPSHandler(context=endpoint_tls_context(ca))
    try:
        with urllib.request.build_opener(trust, _NoRedirect).open(request, timeout=_TIMEOUT) as response:
            answer = json.loads(response.read(_MOST))
        token = answer["access_token"]
        if not isinstance(token, str) or not re.fullmatch(r"[\x21-\x7e]+", token):
            raise ValueError
    except urllib.error.HTTPError as error:
        raise _refusal(url, error) from None
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise _failure(url, error) from None
    return token, refresh_time(token, answer.get("expires_in"))


def endpoint_tls_context(ca: Path | None) -> ssl.SSLContext:
    """Return the TLS context for a token endpoint, with the system's trust store if `ca` is None.

    Raises UpstreamError.
    """
    if ca is None:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        load_trust(context, ca, None)
    except ValueError as error:
        raise UpstreamError("sasl", f"oauth-ca {ca} {error}") from None
    return context


def _refusal(url: str, error: urllib.error.HTTPError) -> UpstreamError:
    """Return the error for an HTTP status, with the OAuth error name, which is a fixed word (RFC 6749 §5.2)."""
    with error:
        match = re.search(rb'"error"\s*:\s*"([a-z_]{1,40})"', error.read(_MOST))
    word = f" ({match[1].decode()})" if match else ""
    if error.code >= 500:
        return TokenEndpointUnavailable(*TOKEN_ENDPOINT_FAILS.with_reason(url=url, code=error.code, word=word))
    return UpstreamError(*TOKEN_ENDPOINT_REFUSES.with_reason(url=url, code=error.code, word=word))


def _failure(url: str, error: Exception) -> UpstreamError:
    reason = getattr(error, "reason", error)
    if isinstance(reason, ssl.SSLCertVerificationError):
        return UpstreamError(*TOKEN_ENDPOINT_UNTRUSTED.with_reason(url=url, error=reason.verify_message))
    if isinstance(reason, TimeoutError):
        return TokenEndpointUnavailable("sasl", f"the token endpoint {url} does not answer within {_TIMEOUT:g} s")
    if isinstance(reason, OSError):
        return TokenEndpointUnavailable(
            "sasl", f"the token endpoint {url} cannot be reached: {reason.strerror or reason}"
        )
    return UpstreamError("sasl", f"the token endpoint {url} returned no usable token")
