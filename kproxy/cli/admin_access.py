"""The options with which a command asks a running kproxy: its address, trusted certificates, and the token."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kproxy.base.addressclass import is_this_machine

if TYPE_CHECKING:
    import ssl

    from kproxy.base.address import Address
    from kproxy.proxy.admin.client import AdminClient

Command = TypeVar("Command", bound=Callable[..., Any])

HTTPS = "https://"

ca_option = click.option(
    "--admin-ca",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Ask the admin endpoint with HTTPS, and trust these certificates.  [default: with https://, the system's]",
)


def admin_options(text: str) -> Callable[[Command], Command]:
    """Return a decorator that adds `--admin`, with this help, `--admin-ca` and `--admin-token-file`."""
    admin = click.option(
        "--admin",
        default="127.0.0.1:19091",
        metavar="[https://]HOST:PORT",
        envvar="KPROXY_ADMIN",
        show_envvar=True,
        show_default=True,
        help=text,
    )
    token = click.option(
        "--admin-token-file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        envvar="KPROXY_ADMIN_TOKEN_FILE",
        show_envvar=True,
        help="File that has the token of that kproxy. KPROXY_ADMIN_TOKEN is the token itself.",
    )

    def decorate(command: Command) -> Command:
        return admin(ca_option(token(command)))

    return decorate


def admin_client(admin: str, ca: Path | None, token_file: Path | None, seconds: float | None = None) -> AdminClient:
    """Return the client that the options describe, with this time for a reply. Raises UsageError, ConfigError."""
    from kproxy.base.address import Address
    from kproxy.proxy.admin.client import SECONDS, AdminClient

    https, address_text = without_scheme(admin)
    token = os.environ.get("KPROXY_ADMIN_TOKEN") or None
    if token_file is not None:
        if token is not None:
            raise click.UsageError(
                "--admin-token-file cannot be combined with KPROXY_ADMIN_TOKEN; allowed: one of them"
            )
        token = _read(token_file)
    try:
        address = Address.parse(address_text)
    except ValueError as error:
        raise click.UsageError(f"--admin: {error}") from None
    try:
        tls = trusting_context(ca, address) if https or ca is not None else None
        return AdminClient(address, token, seconds or SECONDS, tls)
    except ValueError as error:
        raise click.UsageError(f"{error} (KPROXY_ADMIN_TOKEN)") from None


def without_scheme(admin: str) -> tuple[bool, str]:
    """Return whether --admin begins with https://, and the address in it."""
    return admin.startswith(HTTPS), admin.removeprefix("http://").removeprefix(HTTPS).removesuffix("/")


def trusting_context(
    ca: Path | None, address: Address, password: str | None = None, key: str = "--admin-ca"
) -> ssl.SSLContext:
    """Return the TLS context for this address.

    Raises UsageError if the file, which `key` names, cannot be used. On this machine, the name in a certificate of the
    file is not compared: it is that of a service, and the connection does not leave the machine.
    """
    from kproxy.proxy.admin import client

    try:
        context = client.tls_context(ca, password)
    except ValueError as error:
        raise click.UsageError(f"{key}: {ca}: {error}") from None
    if ca is None:
        return context
    context.check_hostname = not (address.is_wildcard or is_this_machine(address.host))
    return context


def _read(file: Path) -> str:
    from kproxy.base.errors import ConfigError
    from kproxy.proxy.admin import bearer

    try:
        return bearer.read_file(file)
    except ConfigError as error:
        raise ConfigError(f"--admin-token-file: {error}") from None
