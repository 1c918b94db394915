"""The options with which clients log in at kproxy, a part of the declaration in `options`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from kproxy.base.addressclass import is_this_machine
from kproxy.config.declarations import CLIENT_LOGIN, Options, Reload, option, settings_of
from kproxy.config.kinds import BOOLEAN, CLIENT_MECHANISM, FILE, PRINCIPAL_RULES, WEB_URL, duration, or_off, text
from kproxy.config.principalrules import PrincipalRules

_client = partial(option, CLIENT_LOGIN, reload=Reload.DRAINS_ALL)
_WITH_USERS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")


@dataclass(frozen=True, kw_only=True)
class ClientSaslOptions(Options):
    """The mechanisms that kproxy offers to clients, and how it verifies them."""

    client_sasl: tuple[str, ...] = _client(
        CLIENT_MECHANISM,
        "Let clients log in at kproxy with this SASL mechanism, in place of the brokers. kproxy itself logs in to the "
        "brokers as --sasl says, or not at all.",
        repeatable=True,
    )
    client_tls_principal_rules: PrincipalRules | None = _client(
        PRINCIPAL_RULES,
        "Let the client's certificate be its login at kproxy. The rules make the user of its subject, as the brokers' "
        "ssl.principal.mapping.rules do. DEFAULT takes the whole subject.",
    )
    users_file: Path | None = _client(
        FILE,
        "Users who may log in at kproxy, with SCRAM verifiers: 'kproxy users' writes it. No other user may read it. "
        "kproxy reads it again when it changes.",
    )
    client_login_lifetime: float | None = _client(
        or_off(duration(1, 365 * 86400)),
        "How long a client's login lasts. Then the client must log in again, as with the brokers' "
        "connections.max.reauth.ms.",
        "off",
    )
    client_plain_without_tls: bool = _client(
        BOOLEAN,
        "Accept passwords of PLAIN without --client-tls-cert although clients of other machines can connect. "
        "Everyone on the network path can read them.",
    )

    client_oauth_jwks_url: str | None = _client(
        WEB_URL, "OAUTHBEARER: URL of the OIDC server's keys (JWKS), by which kproxy verifies tokens."
    )
    client_oauth_jwks_file: Path | None = _client(
        FILE, "OAUTHBEARER: file with these keys. kproxy reads it again for a token with an unknown key."
    )
    client_oauth_ca: Path | None = _client(
        FILE, "OAUTHBEARER: PEM file of the CA to trust for client-oauth-jwks-url.", "the system's"
    )
    client_oauth_issuer: str | None = _client(text("ISSUER"), "OAUTHBEARER: issuer (iss) that a token must have.")
    client_oauth_audience: str | None = _client(
        text("AUDIENCE"), "OAUTHBEARER: audience (aud) that a token must be for."
    )
    client_oauth_user_claim: str = _client(
        text("CLAIM"), "OAUTHBEARER: claim of a token that has the name of the user.", default="sub"
    )

    @property
    def clients_log_in(self) -> bool:
        """True if clients log in at kproxy, with SASL or with a certificate."""
        return bool(self.client_sasl) or self.client_tls_principal_rules is not None

    def client_login_problems(self, *, tls: bool, loopback: bool) -> Iterator[tuple[str, str]]:
        """Yield options that contradict each other, as (key, text)."""
        given = {key for key, setting in settings_of(ClientSaslOptions).items() if getattr(self, setting.name)}
        given.discard("client-oauth-user-claim")
        if self.client_tls_principal_rules is not None:
            given -= {"client-tls-principal-rules", "users-file"}
            if self.client_sasl:
                text = "cannot be combined with client-sasl, the login of the same clients; allowed: one of them"
                yield "client-tls-principal-rules", text
        for key in sorted(given - {"client-sasl"}):
            if not self.client_sasl:
                yield key, "is given, but client-sasl is not; allowed: together with client-sasl"
        with_tokens = "OAUTHBEARER" in self.client_sasl
        for key in sorted(key for key in given if key.startswith("client-oauth-")):
            if self.client_sasl and not with_tokens:
                yield key, "is not for these mechanisms; allowed: with client-sasl OAUTHBEARER"
        if with_tokens:
            yield from self._token_problems(given)
        needing = [mechanism for mechanism in self.client_sasl if mechanism in _WITH_USERS]
        if needing and self.users_file is None:
            yield "client-sasl", f"{needing[0]} needs users with passwords; allowed: together with users-file"
        if "PLAIN" in self.client_sasl and not (tls or loopback or self.client_plain_without_tls):
            why = "PLAIN would send passwords in the clear; allowed: with client-tls-cert, on a loopback address in"
            yield "client-sasl", f"{why} listen, or with client-plain-without-tls"
        if with_tokens and not (tls or loopback):
            why = "OAUTHBEARER would send tokens in the clear; allowed: with client-tls-cert, or on a loopback address"
            yield "client-sasl", f"{why} in listen"

    def _token_problems(self, given: set[str]) -> Iterator[tuple[str, str]]:
        for key in ("client-oauth-issuer", "client-oauth-audience"):
            if key not in given:
                yield "client-sasl", f"OAUTHBEARER needs what a token must have; allowed: together with {key}"
        keys = ("client-oauth-jwks-url", "client-oauth-jwks-file")
        if not given.intersection(keys):
            yield "client-sasl", f"OAUTHBEARER needs the keys of the OIDC server; allowed: one of {', '.join(keys)}"
        elif given.issuperset(keys):
            yield keys[1], f"cannot be combined with {keys[0]}; allowed: one of them"
        url = urlsplit(self.client_oauth_jwks_url or "")
        if url.scheme == "http" and not is_this_machine(url.hostname or ""):
            why = "others on the network path could replace keys that come without TLS, and so be any user"
            yield keys[0], f"{why}; allowed: https://, or http:// on a loopback address"
