"""The warnings that brokers offer APIs which are newer than kproxy, and which it keeps from clients."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kproxy.base.messages.sessions import API_KEPT_FROM_CLIENTS
from kproxy.proxy.relay.introduction import Introduction

log = logging.getLogger(__name__)

# A broker chooses the keys, so their number is bounded.
_MOST_WARNED_OF = 32
_warned_of: set[int] = set()  # in this process


def warn_of_unknown_apis(cluster: str, peer: object, introduction: Introduction, keys: Sequence[int]) -> None:
    """Log each of these API keys, once in a process, with the client that was the first to be without it."""
    for key in keys:
        if key not in _warned_of and len(_warned_of) < _MOST_WARNED_OF:
            _warned_of.add(key)
            names = ", ".join(filter(None, (introduction.client_id, introduction.software)))
            client = f"{names} at {peer}" if names else f"at {peer}"
            log.warning("cluster %s: %s", cluster, API_KEPT_FROM_CLIENTS(key=key, client=client))
