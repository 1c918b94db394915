"""Questions of `kproxy doctor` only: the features of a cluster, the mechanisms of a listener. All are read-only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.client.ask.questions import Question, Versions, ask_for
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.protocol.wire.messages import text

_MAX_MECHANISMS = 20
# A mechanism that no broker has: the response lists those that it has, and no login is made.
_UNUSED_MECHANISM = "KPROXY-ASKS"


def features_question(versions: Versions) -> Question[Mapping[str, int]] | None:
    """Return the question for the finalized features of the cluster, name to level (KIP-584).

    Return None before Kafka 2.4.
    """
    if 3 not in versions.get(ApiKey.API_VERSIONS, ()):
        return None
    software = {"ClientSoftwareName": "kproxy", "ClientSoftwareVersion": "doctor"}
    return ask_for(
        ApiKey.API_VERSIONS,
        3,
        software,
        lambda fields: {
            text(feature["Name"]): feature["MaxVersionLevel"] for feature in fields.get("FinalizedFeatures", ())
        },
    )


def mechanisms_question(versions: Versions) -> Question[tuple[str, ...] | None] | None:
    """Return the question for the SASL mechanisms that this listener has enabled, None if it has no SASL.

    This makes no login; the broker closes the connection afterwards.
    """
    if not versions.get(ApiKey.SASL_HANDSHAKE):
        return None
    version = min(1, versions[ApiKey.SASL_HANDSHAKE][-1])
    return ask_for(ApiKey.SASL_HANDSHAKE, version, {"Mechanism": _UNUSED_MECHANISM}, _read_mechanisms)


def _read_mechanisms(fields: dict[str, Any]) -> tuple[str, ...] | None:
    if fields["ErrorCode"] != ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        return None
    return tuple(map(text, fields["Mechanisms"][:_MAX_MECHANISMS]))
