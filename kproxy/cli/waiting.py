"""What `kproxy wait` does: ask the admin endpoint of another kproxy whether it is ready."""

from __future__ import annotations

import http.client
import time
from collections.abc import Sequence

import click

from kproxy.address import Address

# Between two questions, and for one answer, in seconds.
_ASK_AGAIN, _ANSWER = 0.1, 5.0


def wait_ready(admin: str, timeout: float, requires: str) -> Sequence[str]:
    """Ask until kproxy is ready, for `timeout` seconds at most; why it is not, in lines, empty if it is. `requires`:
    all, one or none of each cluster's nodes."""
    try:
        address = Address.parse(admin)
    except ValueError as error:
        raise click.UsageError(f"--admin: {error}") from None
    until = time.monotonic() + timeout
    while True:
        reasons = _ask(address, requires, min(_ANSWER, max(_ASK_AGAIN, until - time.monotonic())))
        if not reasons or time.monotonic() >= until:
            break
        time.sleep(min(_ASK_AGAIN, max(0.0, until - time.monotonic())))
    return [f"not ready after {timeout:g} s: {reason}" for reason in reasons]


def _ask(admin: Address, requires: str, seconds: float) -> Sequence[str]:
    """Why it is not ready. A wildcard, as --admin of `run` may be, is asked on this machine."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(admin.host, admin.host)
    connection = http.client.HTTPConnection(host, admin.port, timeout=seconds)
    try:
        connection.request("GET", f"/readyz?requires={requires}")
        answer = connection.getresponse()
        text = answer.read(65536).decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return [f"no kproxy answers at {admin} (--admin): {why}"]
    finally:
        connection.close()
    if answer.status == 503:
        return text.splitlines()
    return [] if answer.status == 200 else [f"what answers at {admin} (--admin) is no kproxy: HTTP {answer.status}"]
