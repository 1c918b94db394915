"""Whether clients can log in where they are led."""

from __future__ import annotations

import pytest

from kproxy.proxy.switching.logins import Login, Logins, Way, doubt, misfit

KPROXY, CLIENTS, NOBODY, UNKNOWN = (Way(one) for one in Login)
NO_CLIENTS, OWN, NONE = Logins(), Logins(["app"], mechanisms=["PLAIN"]), Logins((), ["app"])


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
        # These fit.
        (KPROXY, KPROXY, NONE, ""),
        (CLIENTS, CLIENTS, OWN, ""),
        (CLIENTS, CLIENTS, Logins(["app"], ["a probe"]), ""),
        (NOBODY, NOBODY, NONE, ""),
        (NOBODY, KPROXY, NONE, ""),
        (KPROXY, NOBODY, NONE, ""),
        # Of these nobody knows it, and the upstream is not reached: that is said elsewhere.
        (CLIENTS, UNKNOWN, OWN, ""),
        (UNKNOWN, UNKNOWN, NO_CLIENTS, ""),
    ],
)
def test_what_does_not_fit(active: Way, to: Way, clients: Logins, words: str) -> None:
    said = misfit(active, to, "green", clients)
    assert words in said
    assert bool(said) == bool(words)


def test_what_nobody_has_tried() -> None:
    assert doubt(NOBODY, NOBODY, "green", NONE) == doubt(KPROXY, KPROXY, "green", NONE) == ""
    assert "log in themselves with PLAIN: green must know the same users" in doubt(CLIENTS, CLIENTS, "green", OWN)
    assert "unencrypted" not in doubt(CLIENTS, CLIENTS, "green", OWN)
    assert "unencrypted" in doubt(Way(Login.CLIENTS, tls=True), CLIENTS, "green", OWN)


def test_of_many_clients_some_are_named() -> None:
    assert "(a, b, c and 2 more)" in misfit(CLIENTS, KPROXY, "green", Logins(list("abcde")))
