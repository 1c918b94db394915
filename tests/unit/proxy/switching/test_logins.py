"""Whether clients can log in where they are led."""

from __future__ import annotations

import pytest

from kproxy.proxy.switching.logins import ClientLogins, LoginMode, UpstreamLogin, login_conflict, login_warning

KPROXY, CLIENTS, USERS, NOBODY, UNKNOWN = (UpstreamLogin(one) for one in LoginMode)
NO_CLIENTS, OWN, NONE = ClientLogins(), ClientLogins(["app"], mechanisms=["PLAIN"]), ClientLogins((), ["app"])


@pytest.mark.parametrize(
    ("active", "to", "clients", "words"),
    [
        # Clients bring their own, and kproxy would refuse them.
        (CLIENTS, KPROXY, OWN, "log in themselves (app), and kproxy itself logs in to green (sasl)"),
        (CLIENTS, KPROXY, NO_CLIENTS, "log in themselves, and kproxy itself logs in to green (sasl)"),
        (UNKNOWN, KPROXY, OWN, "kproxy itself logs in to green (sasl)"),
        # The other way round.
        (KPROXY, CLIENTS, NONE, "do not log in themselves (app), and the brokers of green want a login"),
        (KPROXY, CLIENTS, NO_CLIENTS, "do not log in themselves, and the brokers of green want a login"),
        (NOBODY, CLIENTS, NONE, "give upstream green credentials (sasl)"),
        # A broker without SASL refuses it.
        (CLIENTS, NOBODY, OWN, "the brokers of green take no login"),
        # kproxy wants a login too, of clients that have none.
        (KPROXY, USERS, NONE, "do not log in themselves (app), and the brokers of green want a login"),
        (USERS, NOBODY, NO_CLIENTS, "the brokers of green take no login"),
        (USERS, KPROXY, NO_CLIENTS, "log in themselves, and kproxy itself logs in to green (sasl)"),
        # These fit.
        (CLIENTS, USERS, OWN, ""),
        (USERS, CLIENTS, NO_CLIENTS, ""),
        (USERS, USERS, NO_CLIENTS, ""),
        (KPROXY, KPROXY, NONE, ""),
        (CLIENTS, CLIENTS, OWN, ""),
        (CLIENTS, CLIENTS, ClientLogins(["app"], ["a probe"]), ""),
        (NOBODY, NOBODY, NONE, ""),
        (NOBODY, KPROXY, NONE, ""),
        (KPROXY, NOBODY, NONE, ""),
        # Of these nobody knows it, and the upstream is not reached: that is said elsewhere.
        (CLIENTS, UNKNOWN, OWN, ""),
        (UNKNOWN, UNKNOWN, NO_CLIENTS, ""),
    ],
)
def test_what_does_not_fit(active: UpstreamLogin, to: UpstreamLogin, clients: ClientLogins, words: str) -> None:
    said = login_conflict(active, to, "green", clients)
    assert words in said
    assert bool(said) == bool(words)


def test_what_nobody_has_tried() -> None:
    assert login_warning(NOBODY, NOBODY, "green", NONE) == login_warning(KPROXY, KPROXY, "green", NONE) == ""
    assert "log in themselves with PLAIN: green must know the same users" in login_warning(
        CLIENTS, CLIENTS, "green", OWN
    )
    assert "unencrypted" not in login_warning(CLIENTS, CLIENTS, "green", OWN)
    assert "unencrypted" in login_warning(UpstreamLogin(LoginMode.CLIENTS, tls=True), CLIENTS, "green", OWN)


def test_of_many_clients_some_are_named() -> None:
    assert "(a, b, c and 2 more)" in login_conflict(CLIENTS, KPROXY, "green", ClientLogins(list("abcde")))
