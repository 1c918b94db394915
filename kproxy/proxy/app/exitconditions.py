"""The conditions of `--exit-with`: a process that ends, a URL that no longer answers, a file that appears.

The program that ends need not notify kproxy, so this works however it ends.
"""

from __future__ import annotations

import asyncio
import os
from urllib.parse import urlsplit

import h11

from kproxy.base.errors import ConfigError
from kproxy.base.messages.start import EXIT_FILE_EXISTS, NO_EXIT_PROCESS
from kproxy.base.process import start_time
from kproxy.config.values import ExitWith

# How often a condition is checked, in seconds.
_LOOK_AGAIN, _ASK_AGAIN = 0.25, 1.0
# After this many failures in a row, a URL no longer answers. A refusal is immediate; silence may be a JVM that collects
# garbage, and counts only after this many seconds.
_FAILURES, _SILENCE = 3, 30.0


class ExitCondition:
    """The condition of one `--exit-with`. Raises ConfigError if it names a process that does not exist."""

    def __init__(self, awaited: ExitWith) -> None:
        self._awaited = awaited
        if awaited.kind == "process":
            self._birth = start_time(int(awaited.text))
            if self._birth is None:
                raise ConfigError(NO_EXIT_PROCESS(text=awaited.text))

    async def wait(self) -> str:
        """Wait until kproxy must end; return why, in one line."""
        if self._awaited.kind == "url":
            reason = await _stopped_answering(self._awaited.text)
        else:
            while True:
                if reason := self._reason():
                    break
                await asyncio.sleep(_LOOK_AGAIN)
        return f"--exit-with {self._awaited.text}: {reason}"

    def _reason(self) -> str:
        if self._awaited.kind == "file":
            return EXIT_FILE_EXISTS() if os.path.exists(self._awaited.text) else ""
        return "" if start_time(int(self._awaited.text)) == self._birth else "the process has ended"


async def _stopped_answering(url: str) -> str:
    """Wait until the URL has answered, then until it no longer does; return the last error."""
    answered, failures = False, 0
    while True:
        try:
            async with asyncio.timeout(_SILENCE):
                await _ask(url)
            answered, failures = True, 0
        except (OSError, h11.RemoteProtocolError) as error:
            failures += 1
            if answered and failures == _FAILURES:
                return f"the URL no longer answers: {_error_text(error)}"
        await asyncio.sleep(_ASK_AGAIN)


def _error_text(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer for {_SILENCE:g} s"
    if isinstance(error, h11.RemoteProtocolError):  # its own text may quote the answer
        return "the answer is not HTTP"
    return str(error)


async def _ask(url: str) -> None:
    """Send a request; any HTTP response will do. Raises OSError, or h11.RemoteProtocolError, if there is none."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    tls = None
    if parts.scheme == "https":
        import ssl

        # kproxy only checks that a server answers, and sends it nothing: any certificate will do.
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port or (443 if tls else 80), ssl=tls)
    try:
        http = h11.Connection(h11.CLIENT)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = [("Host", parts.netloc), ("Connection", "close")]
        request = h11.Request(method="GET", target=target, headers=headers)
        writer.write(http.send(request) or b"")
        while http.next_event() is h11.NEED_DATA:
            http.receive_data(await reader.read(4096))
    finally:
        writer.transport.abort()
