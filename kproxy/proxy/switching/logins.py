"""The logins of clients at the brokers of each upstream, and whether they work after a switch. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from kproxy.base.format import abbreviate
from kproxy.base.messages.migrations import (
    KPROXY_LOGS_IN,
    TARGET_TAKES_NO_LOGIN,
    TARGET_USERS_UNKNOWN,
    TARGET_WANTS_LOGIN,
)


class LoginMode(StrEnum):
    """The party that logs in to the brokers of an upstream."""

    KPROXY = "kproxy"
    """kproxy logs in (`sasl`), and refuses logins of clients."""
    CLIENTS = "clients"
    """The brokers require a login, and each client brings its own."""
    USERS = "users"
    """Clients log in at kproxy (`client-sasl`, or certificates), and kproxy to the brokers, if they require it."""
    NONE = "none"
    """The brokers answer without a login."""
    UNKNOWN = ""
    """No broker has answered so far."""


@dataclass(frozen=True, slots=True)
class UpstreamLogin:
    """The login of one upstream; `tls` is True if kproxy speaks TLS with its brokers."""

    login: LoginMode = LoginMode.UNKNOWN
    tls: bool = False


@dataclass(frozen=True, slots=True)
class ClientLogins:
    """The logins of the connected clients.

    `own` are the names of clients that log in themselves, `none` of those that do not.
    """

    own: Sequence[str] = ()
    none: Sequence[str] = ()
    mechanisms: Sequence[str] = ()


def login_conflict(active: UpstreamLogin, to: UpstreamLogin, name: str, clients: ClientLogins) -> str:
    """Return why clients could not log in after a switch to upstream `name`, or ""."""
    clients_log_in = bool(clients.own) or active.login in (LoginMode.CLIENTS, LoginMode.USERS)
    some_do_not = active.login in (LoginMode.KPROXY, LoginMode.NONE) or bool(clients.none)
    if to.login is LoginMode.KPROXY and clients_log_in:
        return KPROXY_LOGS_IN(clients=_names(clients.own), name=name)
    if to.login is LoginMode.NONE and clients_log_in:
        return TARGET_TAKES_NO_LOGIN(clients=_names(clients.own), name=name)
    if to.login in (LoginMode.CLIENTS, LoginMode.USERS) and some_do_not and not clients_log_in:
        return TARGET_WANTS_LOGIN(clients=_names(clients.none), name=name)
    return ""


def login_warning(active: UpstreamLogin, to: UpstreamLogin, name: str, clients: ClientLogins) -> str:
    """Return what kproxy cannot check of logins that fit, or ""."""
    if to.login is not LoginMode.CLIENTS or not (clients.own or active.login in (LoginMode.CLIENTS, LoginMode.USERS)):
        return ""
    mechanisms = f" with {', '.join(clients.mechanisms)}" if clients.mechanisms else ""
    warning = TARGET_USERS_UNKNOWN(mechanisms=mechanisms, name=name)
    if active.tls and not to.tls:
        warning += f"; and kproxy has no TLS to {name}: what they log in with would go there unencrypted"
    return warning


def _names(names: Sequence[str]) -> str:
    return f" ({abbreviate(names)})" if names else ""
