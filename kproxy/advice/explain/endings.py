"""The moment at which a connection ended: as soon as it was ready, or during its login (pure).

The words of the end are the same each time: `EOF`, `Disconnected`. The moment says what the server did not accept.
"""

from __future__ import annotations

import re

from kproxy.advice.explain.patterns import MessagePattern
from kproxy.advice.remedies.remedy import Program
from kproxy.base.faults import Fault

_READY = re.compile(r"\(after (\d{1,12})ms in state UP\b")
# The end of messages about a connection of librdkafka that was in use.
WHEN_IN_USE = "(after …ms in state UP"
_SOON_MS = 1000
_LOGIN = re.compile(r"\bsasl\b|authenticat", re.IGNORECASE)
# rdkafka_broker.c: a broker is UP after its answer to ApiVersions, before the first request that needs a login.
_ENDED_SOON = MessagePattern(
    Program.LIBRDKAFKA,
    "Disconnected (after …ms in state UP",
    (),
    (Fault.LOGIN_NEEDED, Fault.CLIENT_CERTIFICATE_MISSING, Fault.CLOSED),
    is_specific=True,
    note=(
        "The server has ended the connection less than a second after it was ready, so it did not accept the first request: "
        "the listener requires SASL, or with TLS a client certificate. If it happens once, the broker was restarted."
    ),
)
# What the end of a connection during a login means, the likeliest first.
_AT_LOGIN = (Fault.CREDENTIALS_REFUSED, Fault.PLAINTEXT_TO_TLS, Fault.CLOSED, Fault.NOT_KAFKA)


def message_of_end(best: MessagePattern, line: str) -> MessagePattern:
    """Return the message of a line, or a more precise one if the line says that the connection has ended soon."""
    ready = _READY.search(line) if best.text.endswith(WHEN_IN_USE) else None
    return _ENDED_SOON if ready and int(ready[1]) < _SOON_MS else best


def faults_at_login(best: MessagePattern, faults: tuple[Fault, ...], line: str) -> tuple[Fault, ...]:
    """Return what it means if a connection has ended in the words of any program, in a line about a login."""
    ended = best.program is Program.ANY and {Fault.CLOSED, Fault.LOGIN_NEEDED}.issubset(faults)
    return _AT_LOGIN if ended and _LOGIN.search(line) else faults
