"""How clients log in to the brokers of each upstream, and whether they still can after a switch. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class LoginMode(StrEnum):
    """Who logs in to the brokers of an upstream. KPROXY: kproxy itself (`sasl`), and refuses logins of clients.
    CLIENTS: the brokers want a login, and each client brings its own. NOBODY: the brokers answer without. UNKNOWN: no
    broker has answered so far."""

    KPROXY = "kproxy"
    CLIENTS = "clients"
    NOBODY = "nobody"
    UNKNOWN = ""


@dataclass(frozen=True, slots=True)
class UpstreamLogin:
    """Of one upstream. `tls`: kproxy speaks TLS with its brokers."""

    login: LoginMode = LoginMode.UNKNOWN
    tls: bool = False


@dataclass(frozen=True, slots=True)
class ClientLogins:
    """What connected clients do: the names of those that log in themselves, of those that do not, and which mechanisms
    are used."""

    own: Sequence[str] = ()
    none: Sequence[str] = ()
    mechanisms: Sequence[str] = ()


def login_conflict(active: UpstreamLogin, to: UpstreamLogin, name: str, clients: ClientLogins) -> str:
    """Why clients could not log in any more when they are led to upstream `name`, or ""."""
    bring = bool(clients.own) or active.login is LoginMode.CLIENTS
    bring_none = active.login in (LoginMode.KPROXY, LoginMode.NOBODY) or bool(clients.none)
    if to.login is LoginMode.KPROXY and bring:
        return (
            f"its clients log in themselves{_some(clients.own)}, and kproxy itself logs in to {name} (sasl): it would"
            f" refuse them after the switch. Take sasl away from upstream {name} and give it cluster-id; or let kproxy"
            " log in to both, and take the credentials from the clients before"
        )
    if to.login is LoginMode.NOBODY and bring:
        return (
            f"its clients log in themselves{_some(clients.own)}, and the brokers of {name} take no login: they would"
            f" refuse them after the switch. Name a listener with SASL in bootstrap-servers of upstream {name}"
        )
    if to.login is LoginMode.CLIENTS and bring_none and not bring:
        return (
            f"its clients do not log in themselves{_some(clients.none)}, and the brokers of {name} want a login: give"
            f" upstream {name} credentials (sasl)"
        )
    return ""


def login_warning(active: UpstreamLogin, to: UpstreamLogin, name: str, clients: ClientLogins) -> str:
    """What nobody has tried of logins that fit, or ""."""
    if to.login is not LoginMode.CLIENTS or not (clients.own or active.login is LoginMode.CLIENTS):
        return ""
    how = f" with {', '.join(clients.mechanisms)}" if clients.mechanisms else ""
    said = (
        f"its clients log in themselves{how}: {name} must know the same users and mechanisms, which kproxy cannot try"
    )
    if active.tls and not to.tls:
        said += f"; and kproxy has no TLS to {name}: what they log in with would go there unencrypted"
    return said


_NAMED = 3


def _some(names: Sequence[str]) -> str:
    rest = len(names) - _NAMED
    return f" ({', '.join(names[:_NAMED])}{f' and {rest} more' if rest > 0 else ''})" if names else ""
