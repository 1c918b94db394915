"""`kproxy ls`: what is in a cluster."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kproxy.cli.admin_access import ca_option, trusting_context, without_scheme
from kproxy.cli.flags import ConfiguredCommand, given_options, is_connection_option, servers_argument
from kproxy.cli.group import kproxy, show_tracebacks

if TYPE_CHECKING:
    from kproxy.config import ClusterConfig, Config
    from kproxy.config.declarations import Setting
    from kproxy.inspect.listing.snapshot import ListingOptions
    from kproxy.proxy.admin.client import AdminClient
    from kproxy.proxy.status.model import ClusterStatus

_DIFFERS, _NOT_ASKED = 1, 2
_WIDTH = 80


def _offers(setting: Setting) -> bool:
    return is_connection_option(setting) or setting.key in ("admin", "admin-token-file", "log-level")


@kproxy.command(
    cls=ConfiguredCommand, offers=_offers, defaults={"log-level": "error"}, short_help="Show what is in a cluster."
)
@servers_argument
@click.option(
    "--topic",
    multiple=True,
    metavar="NAME",
    help="Show this topic only; a glob such as 'orders-*' also works. [repeatable]",
)
@click.option("--internal", is_flag=True, help="Show internal topics too.")
@click.option("--partitions", is_flag=True, help="Show each partition.")
@click.option("--groups", is_flag=True, help="Ask every broker that can be reached for its groups.")
@click.option("--listeners", is_flag=True, help="Ask every broker that can be reached for its listeners.")
@click.option("--compare", is_flag=True, help="Show the cluster directly and through kproxy, side by side.")
@click.option("--through", metavar="HOST:PORT", help="The kproxy to compare with. [default: the one at --admin]")
@ca_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def ls(
    ctx: click.Context,
    /,
    servers: tuple[str, ...],
    topic: tuple[str, ...],
    internal: bool,
    partitions: bool,
    groups: bool,
    listeners: bool,
    compare: bool,
    through: str | None,
    as_json: bool,
    admin_ca: Path | None,
    **values: object,
) -> int:
    """Show what is in a cluster: brokers, controller, topics, listeners, groups.

    \b
      kproxy ls kafka.example:9092
      kproxy ls kafka.example:9092 --groups
      kproxy ls kafka.example:9092 --compare

    One bootstrap server that answers is enough; the advertised addresses need not be reachable. If a kproxy with the
    admin endpoint --admin serves this cluster, its local addresses are shown too. The command reads only.

    The exit code is 0, or 1 if --compare finds a difference other than addresses, or 2 if the cluster cannot be asked.
    """
    from kproxy.base.errors import KproxyError
    from kproxy.config import load
    from kproxy.inspect.listing.snapshot import ListingOptions

    if through is not None and not compare:
        raise click.UsageError("--through is for --compare")
    if compare and (groups or listeners or partitions):
        raise click.UsageError("--compare shows neither groups nor listeners nor each partition")
    file, flags = given_options(values, servers)
    assert isinstance(ctx.command, ConfiguredCommand)
    environment = dict(os.environ)
    https = _take_https(flags, environment)
    config = load(flags, environment, file, ctx.command.defaults)
    show_tracebacks(ctx, config)
    from kproxy.proxy.app import logs

    logs.set_up(config.log_format, config.log_level, sys.stderr)
    wanted = ListingOptions(
        topics=topic,
        internal=internal,
        groups=groups,
        listeners=listeners,
        own_listeners=not (topic or groups or compare),
    )
    try:
        client = _client(config, admin_ca, https=https, token_needed="admin_token_file" in flags)
        if compare:
            return _compare(config, wanted, client, through, as_json)
        return _list(config, wanted, client, partitions, as_json)
    except KproxyError as error:
        click.echo(f"kproxy: {error}", err=True)
        return _NOT_ASKED


def _take_https(flags: dict[str, object], environment: dict[str, str]) -> bool:
    """Return True if --admin, or else KPROXY_ADMIN, begins with https://.

    Remove the schemes, which no option of the server has.
    """
    is_https = False
    if admin := environment.get("KPROXY_ADMIN"):
        is_https, environment["KPROXY_ADMIN"] = without_scheme(admin)
    admin_flag = flags.get("admin")
    if isinstance(admin_flag, str):
        is_https, flags["admin"] = without_scheme(admin_flag)
    return is_https


def _client(config: Config, ca: Path | None, *, https: bool, token_needed: bool) -> AdminClient | None:
    """Return the client for the kproxy of this configuration.

    Its own certificate is trusted if no other file is given. Raises ConfigError if a token file that was asked for
    cannot be read; that of another user's kproxy may be private to that user.
    """
    from kproxy.base.errors import ConfigError
    from kproxy.inspect.listing.snapshot import ADMIN_SECONDS
    from kproxy.proxy.admin import bearer
    from kproxy.proxy.admin.client import AdminClient

    if config.admin is None:
        return None
    token, tls = config.admin_token, None
    if config.admin_token_file is not None:
        try:
            token = bearer.read_file(config.admin_token_file)
        except ConfigError as error:
            if token_needed:
                raise ConfigError(f"--admin-token-file: {error}") from None
    if ca is None and config.admin_tls_cert is not None:
        tls = trusting_context(config.admin_tls_cert, config.admin, config.admin_tls_key_password, "admin-tls-cert")
    elif https or ca is not None:
        tls = trusting_context(ca, config.admin)
    return AdminClient(config.admin, token, ADMIN_SECONDS, tls)


def _list(config: Config, options: ListingOptions, client: AdminClient | None, partitions: bool, as_json: bool) -> int:
    import asyncio

    from kproxy.inspect.listing import asjson, text
    from kproxy.inspect.listing.gatherer import gather
    from kproxy.inspect.listing.snapshot import serving_kproxy
    from kproxy.proxy.admin import neighbour

    served = neighbour.served_clusters_if_running(client)
    results = []
    for cluster in config.clusters:
        snapshot = asyncio.run(gather(cluster, options))
        serving = serving_kproxy(config.admin, served, snapshot.cluster_id)
        if as_json:
            which = {"upstream": cluster.upstream, "active": _is_active(cluster, served)} if cluster.upstream else {}
            results.append({**asjson.snapshot(snapshot, serving, options), **which})
            continue
        if len(config.clusters) > 1:
            not_active = "" if _is_active(cluster, served) else " (not active)"
            click.echo(f"== {cluster.title}{not_active}")
        _print(text.snapshot(snapshot, serving, options, _width(), partitions=partitions))
    if as_json:
        click.echo(json.dumps(results if len(config.clusters) > 1 else results[0], indent=2))
    return 0


def _is_active(cluster: ClusterConfig, served: Sequence[ClusterStatus]) -> bool:
    """Return True if clients are routed to this upstream, by the running kproxy, or else by the configuration."""
    for cluster_status in served:
        for upstream in cluster_status.upstreams:
            if (cluster_status.name, upstream.name) == (cluster.name, cluster.upstream):
                return upstream.active
    return cluster.active


def _compare(
    config: Config, options: ListingOptions, client: AdminClient | None, through: str | None, as_json: bool
) -> int:
    import asyncio

    from kproxy.base.address import Address
    from kproxy.inspect.listing import asjson, text
    from kproxy.inspect.listing.paired_snapshots import gather_pair
    from kproxy.proxy.admin import neighbour

    if len(config.served) > 1:
        raise click.UsageError("--compare takes one cluster, and the file has several")
    try:
        other = None if through is None else Address.parse(through, 9092)
    except ValueError as error:
        raise click.UsageError(f"--through: {error}") from None
    served = neighbour.served_clusters_if_running(client) if len(config.clusters) > 1 else []
    cluster = next((cluster for cluster in config.clusters if _is_active(cluster, served)), config.served[0])
    pair = asyncio.run(gather_pair(cluster, client, other, options))
    if as_json:
        click.echo(json.dumps(asjson.comparison(pair), indent=2))
    else:
        _print(text.comparison(pair, _width()))
    return _DIFFERS if pair.differs else 0


def _print(lines: Iterator[str]) -> None:
    for line in lines:
        click.echo(line)


def _width() -> int:
    return shutil.get_terminal_size((_WIDTH, 24)).columns if sys.stdout.isatty() else _WIDTH
