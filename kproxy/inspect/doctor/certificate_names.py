"""The names that all certificates of a cluster have, for --tls-server-name. Pure."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence

from kproxy.config.kinds import SERVER_NAME
from kproxy.inspect.doctor.evidence import Contact, Examination
from kproxy.net.tls.handshakes import ANY_NAME

# Names that are tried.
_MOST = 2


def server_names(examination: Examination) -> list[str]:
    """Return the names that kproxy may expect of every broker: first those in each certificate, then any name."""
    contacts = (*examination.bootstrap, *examination.nodes)
    if not examination.tls or not any(contact.reason == "tls-name" for contact in contacts):
        return []
    certificates = _certificates(contacts)
    common = [name for name in _candidates(certificates) if all(_has(names, name) for names in certificates)]
    return [*common[:_MOST], ANY_NAME]


def _certificates(contacts: Iterable[Contact]) -> list[tuple[str, ...]]:
    """Return the names of each certificate that a server showed, in lower case."""
    names_of_each = (contact.certificate.names for contact in contacts if contact.certificate is not None)
    return list(dict.fromkeys(tuple(name.lower() for name in names) for names in names_of_each))


def _candidates(certificates: Sequence[Sequence[str]]) -> Iterator[str]:
    names = list(dict.fromkeys(name for names in certificates for name in names))
    plain = [name for name in names if not name.startswith("*.")]
    within = [f"broker{name[1:]}" for name in names if name.startswith("*.")]
    for name in (*plain, *within):
        with contextlib.suppress(ValueError):  # a server may send any text as its name
            yield SERVER_NAME.parse(name)


def _has(names: Iterable[str], host: str) -> bool:
    """Return True if a certificate with these names is one for this host (RFC 9525 §6.3)."""
    return any(name == host or (name.startswith("*.") and name[1:] == host[host.find(".") :]) for name in names)
