"""The checks of `kproxy config check` beyond the configuration: everything that would prevent a start or a login.

They use no socket and run no command. Files are read by the code that reads them when kproxy runs.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path

from kproxy.base.errors import ConfigError, UpstreamError
from kproxy.client.sasl import aws, kerberos, oidc, secrets
from kproxy.config import ClusterConfig, Config
from kproxy.config.checks import WHERE_NOT_SHARED, Violation
from kproxy.net.dial.dialer import check_library
from kproxy.net.tls.handshakes import TlsFilesError
from kproxy.proxy.admin import bearer
from kproxy.proxy.admin.tlsstream import admin_tls
from kproxy.proxy.app.exitconditions import ExitCondition
from kproxy.proxy.cluster.encryption import broker_tls, client_tls
from kproxy.proxy.login import principals, tokens
from kproxy.users.usersfile import read_users_file

# What each of these files is read with.
_READ_WITH = {
    "tls-ca": ("tls-ca-password",),
    "tls-cert": ("tls-key", "tls-key-password"),
    "client-tls-ca": (),
    "client-tls-cert": ("client-tls-key", "client-tls-key-password"),
}


def violations(config: Config) -> Iterator[Violation]:
    """Yield the problems, where the user wrote them."""
    yield from cluster_violations(config)
    yield from _of_process(config)


def cluster_violations(config: Config) -> Iterator[Violation]:
    """Yield the problems in what a reload can change."""
    for index, cluster in enumerate(config.clusters):
        for keys, text in chain(_certificates(cluster), _login(cluster), _hops(cluster), _forwards(cluster)):
            yield Violation(tuple(("clusters", index, key) for key in keys), text)


def _of_process(config: Config) -> Iterator[Violation]:
    try:
        admin_tls(config)
    except TlsFilesError as error:
        for key, text in error.option_problems:
            yield Violation(tuple((option,) for option in (key, "admin-tls-key", "admin-tls-key-password")), text)
    if config.admin is not None and config.admin_token_file is not None:
        try:
            bearer.read_file(config.admin_token_file)
        except ConfigError as error:
            yield Violation((("admin-token-file",),), str(error))
    if config.reuse_port and sys.platform != "linux":
        yield Violation((("reuse-port",),), WHERE_NOT_SHARED)
    for index, awaited in enumerate(config.exit_with):
        try:
            ExitCondition(awaited)
        except ConfigError as error:
            yield Violation((("exit-with", index),), str(error).removeprefix("--exit-with: "))


def unchecked_commands(config: Config) -> Iterator[str]:
    """Yield the options with commands, which kproxy does not run here, and the cluster of each."""
    for cluster in config.clusters:
        for key, command in _commands(cluster):
            if command is not None:
                yield f"{key} of cluster {cluster.name}"
        if cluster.forward_command:
            yield f"forward-command of cluster {cluster.name}"


def _commands(cluster: ClusterConfig) -> tuple[tuple[str, str | None], ...]:
    return (
        ("sasl-password-command", cluster.sasl_password_command),
        ("oauth-token-command", cluster.oauth_token_command),
        ("credentials-command", cluster.credentials_command),
    )


def _certificates(cluster: ClusterConfig) -> Iterator[tuple[tuple[str, ...], str]]:
    for make in (broker_tls, client_tls):
        try:
            make(cluster)
        except TlsFilesError as error:
            yield from (((key, *_READ_WITH[key]), text) for key, text in error.option_problems)


def _hops(cluster: ClusterConfig) -> Iterator[tuple[tuple[str, ...], str]]:
    for hop in cluster.via:
        try:
            check_library(hop)
        except ConfigError as error:
            yield ("via",), str(error).removeprefix("via: ")


def _forwards(cluster: ClusterConfig) -> Iterator[tuple[tuple[str, ...], str]]:
    for command in cluster.forward_command:
        if shutil.which(command.words[0]) is None:
            yield ("forward-command",), f"the command '{command.words[0]}' cannot be run: there is no such program"


def _login(cluster: ClusterConfig) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield what a login needs and this machine does not have."""
    for key, check in _needs(cluster):
        try:
            check()
        except (UpstreamError, ConfigError) as error:
            yield (key,), str(error).removeprefix(f"{key} ")
        except OSError as error:
            yield (key,), f"{error.filename} cannot be read: {error.strerror}"


def _needs(cluster: ClusterConfig) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield each option of the login, and a function that raises UpstreamError or OSError if it cannot be used."""
    yield from _needs_of_users(cluster)
    if cluster.sasl_password_file is not None:
        yield "sasl-password-file", partial(secrets.read_file_blocking, cluster.sasl_password_file)
    if cluster.oauth_token_file is not None:
        yield "oauth-token-file", partial(secrets.read_file_blocking, cluster.oauth_token_file)
    for key, command in _commands(cluster):
        if command is not None:
            yield key, partial(_program, command)
    if cluster.oauth_ca is not None:
        yield "oauth-ca", partial(oidc.endpoint_tls_context, cluster.oauth_ca)
    if cluster.sasl == "GSSAPI":
        yield "sasl", kerberos.load_gssapi
    if cluster.kerberos_keytab is not None:
        yield "kerberos-keytab", partial(_read, cluster.kerberos_keytab)
    if cluster.sasl == "AWS_MSK_IAM":
        yield "sasl", aws.require_botocore


def _needs_of_users(cluster: ClusterConfig) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the same for the logins of clients at kproxy; it may also raise ConfigError."""
    if cluster.users_file is not None:
        yield "users-file", partial(read_users_file, cluster.users_file)
    if cluster.client_tls_principal_rules is not None:
        yield "client-tls-principal-rules", partial(principals.require_patterns, cluster.client_tls_principal_rules)
    if "OAUTHBEARER" in cluster.client_sasl:
        yield "client-sasl", tokens.require_joserfc
    if cluster.client_oauth_jwks_file is not None:
        yield "client-oauth-jwks-file", partial(_read, cluster.client_oauth_jwks_file)
    if cluster.client_oauth_ca is not None:
        yield "client-oauth-ca", partial(oidc.endpoint_tls_context, cluster.client_oauth_ca)


def _program(command: str) -> None:
    name = secrets.split_command(command)[0]
    if shutil.which(name) is None:
        raise UpstreamError("sasl", f"the command '{name}' cannot be run: there is no such program")


def _read(path: Path) -> None:
    with path.open("rb") as file:
        file.read(1)
