"""The section `switch` of a migration's file: the kproxies, and how to reach their admin endpoints (pure)."""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass, replace
from pathlib import Path

from kproxy.base.address import Address
from kproxy.config import kinds
from kproxy.config.kinds import ValueKind, string
from kproxy.config.values import quote
from kproxy.migrate.spec.declarations import FILE, SectionKind, key

HTTPS = "https://"
PORT = 19091
# Clients give up a request after 30 seconds.
LONGEST_HOLD = 25


def parse_kproxy_address(text: str) -> str:
    """Return the canonical form of an admin address. Raises ValueError."""
    https = text.startswith(HTTPS)
    address = Address.parse(text.removeprefix(HTTPS).removeprefix("http://").removesuffix("/"), PORT)
    return f"{HTTPS if https else ''}{address}"


def _parse_labels(text: str) -> str:
    if not re.fullmatch(r"[\w./=!, ()-]{1,500}", text):
        raise ValueError(f"{quote(text)} are no labels; allowed: such as app=kproxy, or 'app=kproxy,tier=edge'")
    return text


_PLACES = "[[https://]HOST:PORT, …], {dns: [https://]NAME:PORT} or {kubernetes: LABELS}"
_ADDRESS = ValueKind("HOST:PORT", _PLACES, (), parse_kproxy_address, str, string("^[^\\s,]+$"))
_LABELS = ValueKind("LABELS", "labels of pods, such as app=kproxy", (), _parse_labels, str, string("^.+$"))


@dataclass(frozen=True, slots=True)
class KproxySelection:
    """The places where the kproxies are found; exactly one of `addresses`, `dns` and `kubernetes` is given."""

    addresses: tuple[str, ...] = key(
        _ADDRESS, "Admin addresses, each with https:// or without; a list in place of the mapping.", repeatable=True
    )
    dns: str = key(
        replace(_ADDRESS, allowed="[https://]NAME:PORT"), "Name each of whose addresses is a kproxy.", default=""
    )
    kubernetes: str = key(_LABELS, "Labels of pods, as `kubectl get pods -l` takes them.", default="")
    namespace: str = key(kinds.NAME, "With kubernetes: namespace of the pods.", default="")
    port: int = key(kinds.count(1, 65535), "With kubernetes: port of the admin endpoints.", default=PORT)
    kubeconfig: Path | None = key(FILE, "With kubernetes: file of the context; by default, the usual one.")
    https: bool = key(kinds.BOOLEAN, "With kubernetes: the admin endpoints use TLS.")


@dataclass(frozen=True, slots=True)
class SwitchSection:
    """The options of the section `switch`."""

    kproxies: KproxySelection = key(SectionKind(KproxySelection, _PLACES), "Where the kproxies are.", default=MISSING)
    target_upstream: str = key(
        replace(kinds.NAME, allowed="the name of an upstream, such as green"),
        "The kproxies' name for the upstream that is the target.",
        default=MISSING,
    )
    cluster: str = key(kinds.NAME, "The kproxies' name for the cluster that is switched.", default="default")
    token_file: Path | None = key(FILE, "File with the token of the admin endpoints.")
    ca: Path | None = key(FILE, "Certificates to trust for the admin endpoints, a PEM file.")
    server_name: str = key(
        kinds.SERVER_NAME, "Name in the kproxies' certificates; by default, the host of their address.", default=""
    )
    hold_seconds: float = key(kinds.duration(1, LONGEST_HOLD), "Longest time for which writes are held.", default=20.0)
    max_lag: int = key(
        kinds.count(0, 10**12),
        "Number of offsets that may still have to be copied when the hold begins.",
        default=100_000,
    )
