"""The options with which kproxy logs in to the brokers, a part of the declaration in `options`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, get_args

from kproxy.config import kinds
from kproxy.config.declarations import LOGIN, Model, Option, Reload, kebab

Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI"]
MECHANISMS: tuple[Mechanism, ...] = get_args(Mechanism)


class SaslOptions(Model):
    """The mechanism, the user and the sources of secrets."""

    sasl: Annotated[
        Mechanism | None,
        kinds.choice(*MECHANISMS, optional=True),
        Option(
            LOGIN,
            "Log in to the brokers with this SASL mechanism. Clients then connect without a login.",
            unset="clients log in themselves",
            reload=Reload.DRAINS_ALL,
        ),
    ] = None
    sasl_username: Annotated[
        str | None,
        kinds.text("NAME"),
        Option(
            LOGIN,
            "User name. With --oauth-token-url: the client id. With GSSAPI: the principal.",
            unset="none",
            reload=Reload.DRAINS_ALL,
        ),
    ] = None
    sasl_password: Annotated[
        str | None,
        kinds.text("PASSWORD"),
        Option(
            LOGIN,
            "Password. With --oauth-token-url: the client secret.",
            unset="none",
            secret=True,
            reload=Reload.DRAINS_ALL,
        ),
    ] = None
    sasl_password_file: Annotated[
        Path | None,
        kinds.path(),
        Option(
            LOGIN, "File with the password. kproxy reads it for each login.", unset="none", reload=Reload.DRAINS_ALL
        ),
    ] = None
    sasl_password_command: Annotated[
        str | None,
        kinds.text("COMMAND"),
        Option(
            LOGIN,
            "Command that prints the password. kproxy runs it once, without a shell, and again if the broker refuses "
            "the password.",
            unset="none",
            reload=Reload.DRAINS_ALL,
        ),
    ] = None
    oauth_token_url: Annotated[
        str | None,
        kinds.url(),
        Option(
            LOGIN,
            "OAUTHBEARER: token endpoint of an OIDC server, for the client credentials grant.",
            unset="none",
            reload=Reload.DRAINS_ALL,
        ),
    ] = None
    oauth_scope: Annotated[
        str | None,
        kinds.text("SCOPE"),
        Option(
            LOGIN,
            "OAUTHBEARER: scope to request from the token endpoint. Separate several with spaces.",
            unset="none",
            reload=Reload.DRAINS_ALL,
        ),
    ] = None
    oauth_ca: Annotated[
        Path | None,
        kinds.path(),
        Option(
            LOGIN,
            "OAUTHBEARER: PEM file of the CA to trust for the token endpoint.",
            unset="the system's",
            reload=Reload.DRAINS_ALL,
        ),
    ] = None
    oauth_extensions: Annotated[
        tuple[Annotated[str, kinds.pair()], ...],
        Option(
            LOGIN,
            "OAUTHBEARER: SASL extensions, for example logicalCluster=lkc-1.",
            unset="none",
            reload=Reload.DRAINS_ALL,
        ),
    ] = ()
    oauth_token_file: Annotated[
        Path | None,
        kinds.path(),
        Option(
            LOGIN,
            "OAUTHBEARER: file with the token. kproxy reads it for each login.",
            unset="none",
            reload=Reload.DRAINS_ALL,
        ),
    ] = None
    oauth_token_command: Annotated[
        str | None,
        kinds.text("COMMAND"),
        Option(
            LOGIN,
            "OAUTHBEARER: command that prints a token. kproxy runs it without a shell, and again before the token "
            "expires.",
            unset="none",
            reload=Reload.DRAINS_ALL,
        ),
    ] = None
    kerberos_service: Annotated[
        str,
        kinds.text("NAME"),
        Option(LOGIN, "GSSAPI: service name in the principals of the brokers.", reload=Reload.DRAINS_ALL),
    ] = "kafka"
    kerberos_keytab: Annotated[
        Path | None,
        kinds.path(),
        Option(LOGIN, "GSSAPI: keytab to log in with.", unset="the ticket cache (kinit)", reload=Reload.DRAINS_ALL),
    ] = None
    aws_profile: Annotated[
        str | None,
        kinds.text("NAME"),
        Option(
            LOGIN,
            "AWS_MSK_IAM: profile in ~/.aws to sign with.",
            unset="the credentials that the AWS SDK finds",
            reload=Reload.DRAINS_ALL,
        ),
    ] = None

    def login_problems(self) -> Iterator[tuple[str, str]]:
        """Yield options that contradict each other, as (key, text)."""
        given = {kebab(name) for name in SaslOptions.model_fields if getattr(self, name)}
        for key, mechanisms in _FOR.items():
            if key in given and self.sasl not in mechanisms:
                text = "is given, but sasl is not" if self.sasl is None else f"is not for {self.sasl}"
                yield key, f"{text}; allowed: with sasl {' or '.join(mechanisms)}"
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
