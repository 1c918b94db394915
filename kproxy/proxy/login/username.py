"""The user name in a login that passes to the broker (pure).

kproxy reads the name and verifies nothing: the broker does.
"""

from __future__ import annotations

import re

from kproxy.proxy.login.scram import unescaped

# The header of GS2 and the name, as `ClientFirstMessage` of Kafka's `ScramMessages` has them (RFC 5802 §7).
_SCRAM_FIRST = re.compile(r"(?:n|y|p=[^,]{1,100}),(?:a=[^,]*)?,(?:m=[^,]*,)?n=(?P<name>[^,]+),")


def read_user_name(mechanism: str, token: bytes) -> str:
    """Return the user name in a client's SASL message of PLAIN or SCRAM, or in its beginning.

    "" if there is none: in SCRAM's last message, with a delegation token (KIP-48), whose id is in its place, and with
    mechanisms whose messages show no name.
    """
    if mechanism == "PLAIN":  # authorization id, user, password (RFC 4616)
        _, separator, rest = token.partition(b"\0")
        name, end, _ = rest.partition(b"\0")
        return name.decode("utf-8", "replace") if separator and end else ""
    if mechanism.startswith("SCRAM-"):
        match = _SCRAM_FIRST.match(token.decode("utf-8", "replace"))
        return "" if match is None or b",tokenauth=true" in token else unescaped(match["name"])
    return ""
