"""The options with which kproxy logs in to the brokers, a part of the declaration in `options`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, get_args

from kproxy.config.declarations import LOGIN, Options, Reload, option, settings_of
from kproxy.config.kinds import EXTENSION, FILE, WEB_URL, choice, duration, text

Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI"]
MECHANISMS: tuple[Mechanism, ...] = get_args(Mechanism)
LoginAs = Literal["kproxy", "user", "client"]
_login = partial(option, LOGIN, reload=Reload.DRAINS_ALL)


@dataclass(frozen=True, kw_only=True)
class SaslOptions(Options):
    """The mechanism, the user and the sources of secrets."""

    sasl: Mechanism | None = _login(
        choice(*MECHANISMS, optional=True),
        "Log in to the brokers with this SASL mechanism. Clients then connect without a login.",
        "clients log in themselves",
    )
    sasl_username: str | None = _login(
        text("NAME"), "User name. With --oauth-token-url: the client id. With GSSAPI: the principal."
    )
    sasl_password: str | None = _login(
        text("PASSWORD"), "Password. With --oauth-token-url: the client secret.", secret=True
    )
    sasl_password_file: Path | None = _login(FILE, "File with the password. kproxy reads it for each login.")
    sasl_password_command: str | None = _login(
        text("COMMAND"),
        "Command that prints the password. kproxy runs it once, without a shell, and again if the broker refuses "
        "the password.",
    )
    oauth_token_url: str | None = _login(
        WEB_URL, "OAUTHBEARER: token endpoint of an OIDC server, for the client credentials grant."
    )
    oauth_scope: str | None = _login(
        text("SCOPE"), "OAUTHBEARER: scope to request from the token endpoint. Separate several with spaces."
    )
    oauth_ca: Path | None = _login(
        FILE, "OAUTHBEARER: PEM file of the CA to trust for the token endpoint.", "the system's"
    )
    oauth_extensions: tuple[str, ...] = _login(
        EXTENSION, "OAUTHBEARER: SASL extensions, for example logicalCluster=lkc-1.", repeatable=True
    )
    oauth_token_file: Path | None = _login(FILE, "OAUTHBEARER: file with the token. kproxy reads it for each login.")
    oauth_token_command: str | None = _login(
        text("COMMAND"),
        "OAUTHBEARER: command that prints a token. kproxy runs it without a shell, and again before the token expires.",
    )
    kerberos_service: str = _login(
        text("NAME"), "GSSAPI: service name in the principals of the brokers.", default="kafka"
    )
    kerberos_keytab: Path | None = _login(FILE, "GSSAPI: keytab to log in with.", "the ticket cache (kinit)")
    aws_profile: str | None = _login(
        text("NAME"), "AWS_MSK_IAM: profile in ~/.aws to sign with.", "the credentials that the AWS SDK finds"
    )

    login_as: LoginAs = _login(
        choice("kproxy", "user", "client"),
        "Whose login the brokers see where clients log in at kproxy. kproxy: the one of --sasl, for all clients. user: "
        "one for each user, from the users file or --credentials-command. client: the client's own, which passes to "
        "the brokers, and kproxy does not ask for one.",
        default="kproxy",
    )
    credentials_command: str | None = _login(
        text("COMMAND"),
        "Command that prints the login of a user as JSON with username and password, or token. kproxy runs it without "
        "a shell; {user} and {upstream} in it are the names of the user and of the upstream.",
    )
    credentials_lifetime: float = _login(
        duration(1, 30 * 86400), "How long kproxy uses what --credentials-command has printed.", default=300.0
    )
    default_login: str | None = _login(
        text("NAME"), "The user whose login the brokers see for users without one. Without it, such users are refused."
    )

    def login_problems(self) -> Iterator[tuple[str, str]]:
        """Yield options that contradict each other, as (key, text)."""
        given = {key for key, setting in settings_of(SaslOptions).items() if getattr(self, setting.name)}
        for key, mechanisms in _FOR.items():
            if key in given and self.sasl not in mechanisms:
                text = "is given, but sasl is not" if self.sasl is None else f"is not for {self.sasl}"
                yield key, f"{text}; allowed: with sasl {' or '.join(mechanisms)}"
        yield from self._problems_of_users()
        if self.sasl is None:
            return
        for sources in (_PASSWORD, _TOKEN):
            several = [key for key in sources if key in given]
            if len(several) > 1:
                yield several[1], f"cannot be combined with {several[0]}; allowed: one of {', '.join(sources)}"
        if self.sasl == "OAUTHBEARER" and not given.intersection(_TOKEN):
            yield "sasl", f"OAUTHBEARER needs a token; allowed: one of {', '.join(_TOKEN)}"
        if self.sasl in _WITH_PASSWORD or "oauth-token-url" in given:
            who = "oauth-token-url" if "oauth-token-url" in given else self.sasl
            if "sasl-username" not in given:
                yield "sasl", f"{who} needs a user name; allowed: sasl-username"
            if not given.intersection(_PASSWORD):
                yield "sasl", f"{who} needs a password; allowed: one of {', '.join(_PASSWORD)}"

    def _problems_of_users(self) -> Iterator[tuple[str, str]]:
        """Yield problems of the logins for each user."""
        for key, value in (("credentials-command", self.credentials_command), ("default-login", self.default_login)):
            if value is not None and self.login_as != "user":
                yield key, "is for logins of each user; allowed: with login-as user"
        if self.login_as == "user" and self.sasl is None:
            yield "login-as", "user needs a login of kproxy's own too, for its own requests; allowed: with sasl"
        if self.login_as == "client" and self.sasl is not None:
            yield "login-as", "client lets clients log in to the brokers themselves; allowed: without sasl"
        if self.credentials_command is not None and "{user}" not in self.credentials_command:
            yield "credentials-command", "would print the same login for all users; allowed: a command with {user}"


_PASSWORD = ("sasl-password", "sasl-password-file", "sasl-password-command")
_TOKEN = ("oauth-token-url", "oauth-token-file", "oauth-token-command")
_WITH_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
# Groups that allow only one option: a source of higher precedence replaces the whole group.
EXCLUSIVE = (_PASSWORD, _TOKEN)
# The mechanisms of each option.
_FOR: dict[str, tuple[str, ...]] = {
    "sasl-username": (*_WITH_PASSWORD, "OAUTHBEARER", "GSSAPI"),
    **dict.fromkeys(_PASSWORD, (*_WITH_PASSWORD, "OAUTHBEARER")),
    **dict.fromkeys((*_TOKEN, "oauth-scope", "oauth-ca", "oauth-extensions"), ("OAUTHBEARER",)),
    "kerberos-keytab": ("GSSAPI",),
    "aws-profile": ("AWS_MSK_IAM",),
}


def is_for(key: str, mechanism: str) -> bool:
    """Return True if an option is allowed with the mechanism."""
    return mechanism in _FOR.get(key, (mechanism,))
