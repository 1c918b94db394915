"""`kproxy wait` and `kproxy reload`: for a kproxy that runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kproxy.cli.group import kproxy, timeout_option

if TYPE_CHECKING:
    from kproxy.admin.client import AdminClient


@kproxy.command()
@click.option(
    "--admin", default="127.0.0.1:19091", metavar="HOST:PORT", envvar="KPROXY_ADMIN", show_envvar=True,
    show_default=True,
    help="Admin endpoint of the kproxy to wait for.",
)  # fmt: skip
@click.option(
    "--ready-requires", default="all", type=click.Choice(["all", "one", "none"]), show_default=True,
    help="How many nodes of each cluster must be reachable.",
)  # fmt: skip
@timeout_option("60s", "How long to wait. With 0, kproxy checks once.")
def wait(admin: str, ready_requires: str, timeout: float) -> int:
    """Wait until a running or starting kproxy is ready.

    \b
      kproxy run -b kafka.example:9092 &
      kproxy wait && kcat -b 127.0.0.1:19092 -L

    The exit code is 0 if kproxy is ready. It is 1 if kproxy is not ready in time; the reasons are printed.
    """
    reasons = _client(admin, None).wait_ready(timeout, ready_requires)
    for reason in reasons:
        click.echo(f"kproxy: not ready after {timeout:g} s: {reason}", err=True)
    return 1 if reasons else 0


@kproxy.command()
@click.option(
    "--admin", default="127.0.0.1:19091", metavar="HOST:PORT", envvar="KPROXY_ADMIN", show_envvar=True,
    show_default=True,
    help="Admin endpoint of the kproxy to reload.",
)  # fmt: skip
@click.option(
    "--admin-token-file", type=click.Path(path_type=Path), metavar="FILE", envvar="KPROXY_ADMIN_TOKEN_FILE",
    show_envvar=True,
    help="File with its token. KPROXY_ADMIN_TOKEN is the token itself.",
)  # fmt: skip
@timeout_option("60s", "How long to wait for its answer.")
def reload(admin: str, admin_token_file: Path | None, timeout: float) -> int:
    """Let a running kproxy read its configuration again.

    \b
      kproxy run -c kproxy.yaml --admin-reload &
      kproxy reload

    Prints what has changed. If there is a mistake, nothing changes, and the mistakes are printed. The exit code is 0 if
    the configuration was taken over, 1 if kproxy cannot be asked or refuses to reload, and 2 if there is a mistake.
    """
    import os

    from kproxy.admin import bearer
    from kproxy.errors import AdminError, ConfigError

    token = os.environ.get("KPROXY_ADMIN_TOKEN", "").strip() or None
    if admin_token_file is not None:
        try:
            token = bearer.read_file(admin_token_file)
        except ConfigError as error:
            raise click.UsageError(f"--admin-token-file: {error}") from None
    try:
        done, lines = _client(admin, token).reload(timeout)
    except AdminError as error:
        click.echo(f"kproxy: {error}", err=True)
        return 1
    for line in lines:
        click.echo(line if done else f"kproxy: {line}", err=not done)
    return 0 if done else 2


def _client(admin: str, token: str | None) -> AdminClient:
    from kproxy.address import Address
    from kproxy.admin.client import AdminClient

    try:
        return AdminClient(Address.parse(admin), token)
    except ValueError as error:
        raise click.UsageError(f"--admin: {error}") from None
