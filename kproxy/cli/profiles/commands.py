"""`kproxy up`, `kproxy down` and `kproxy list`: profiles in the background."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kproxy.cli.admin_access import trusting_context
from kproxy.cli.completion import profiles
from kproxy.cli.flags import ConfiguredCommand, given_options
from kproxy.cli.group import kproxy, needs_unix, timeout_option

if TYPE_CHECKING:
    from kproxy.cli.profiles.background import AdminAccess, BackgroundKproxy
    from kproxy.cli.profiles.ports import Window
    from kproxy.config import Config

_KINDS = ("systemd", "launchd")


@kproxy.command(
    cls=ConfiguredCommand,
    defaults={"listen": "a port of the profile's own", "admin": "a port of the profile's own"},
    takes_profile=False,
)
@click.argument("profile", metavar="@NAME", shell_complete=profiles)
@timeout_option("30s", "How long to wait until it is ready.")
@click.option(
    "--write-unit",
    type=click.Choice(_KINDS),
    help="Start nothing. Write a file that starts it at your login.",
)
def up(profile: str, timeout: float, write_unit: str | None, **values: object) -> int:
    """Run a profile in the background.

    \b
      mkdir -p ~/.config/kproxy
      echo 'bootstrap-servers: kafka.example:9092' > ~/.config/kproxy/staging.yaml
      kproxy up @staging
      kproxy down @staging

    A profile is a configuration file in ~/.config/kproxy. 'kproxy run @staging' runs it in this terminal; kproxy up
    continues when the terminal is closed. If the profile has no listen and no admin, it gets ports of its own, the same
    ones each time, so that several can run at once. The options are those of 'kproxy run'.

    The exit code is 0 if kproxy is ready, 1 if it has ended or is not ready in time.
    """
    needs_unix(click.get_current_context())
    from kproxy.cli.profiles import background, paths, units
    from kproxy.config import read

    if values.get("config_file") is not None:
        raise click.UsageError("-c cannot be combined with a profile, which is the file")
    file, name = paths.profile(profile), paths.name_of(profile)
    _, flags = given_options(values)
    with background.exclusive_lock():
        running_kproxy = background.running(name)
        if running_kproxy is None:
            loaded = read(flags, os.environ, file)
            window = _window(name, loaded.config, loaded.origins)
            command = _command(file, flags, window, loaded.origins)
            admin = str(loaded.config.admin) if window is None or ("admin",) in loaded.origins else window.admin
            if write_unit is not None:
                return _write(*(units.systemd if write_unit == "systemd" else units.launchd)(name, command))
            asking = _admin_access(loaded.config)
            log = background.log_of(name)
            before = log.stat().st_size if log.exists() else 0
            cert = loaded.config.admin_tls_cert
            started = background.start(name, command, admin, "" if cert is None else str(cert.absolute()))
    if running_kproxy is not None:
        click.echo(f"@{name} runs already, with process id {running_kproxy.pid}")
        _print_kproxy(name, running_kproxy, _admin_access(read(flags, os.environ, file).config))
        return 0
    outcome = background.wait_ready(started, asking, log, before, timeout)
    if isinstance(outcome, background.ExitedKproxy):
        background.forget(name)
        for line in outcome.lines:
            click.echo(line, err=True)
        code = "" if outcome.code is None else f" with exit code {outcome.code}"
        click.echo(f"kproxy: @{name} has ended{code} (log: {log})", err=True)
        return 1
    for reason in outcome:
        click.echo(f"kproxy: @{name} runs, but is not ready after {timeout:g} s: {reason}", err=True)
    _print_kproxy(name, started, asking)
    return 1 if outcome else 0


@kproxy.command()
@click.argument("profile", metavar="@NAME", shell_complete=profiles)
@timeout_option("60s", "How long to wait until it has ended.")
def down(profile: str, timeout: float) -> int:
    """End a profile in the background.

    It finishes the requests in flight, as after Ctrl-C. The exit code is 0 if it has ended, or did not run.
    """
    needs_unix(click.get_current_context())
    from kproxy.cli.profiles import background, paths

    name = paths.name_of(profile)
    running_kproxy = background.running(name)
    if running_kproxy is None:
        click.echo(f"@{name} does not run in the background")
        return 0
    if background.stop(running_kproxy, timeout, lambda: background.forget(name)):
        click.echo(f"@{name} has ended")
        return 0
    click.echo(f"kproxy: @{name} (process id {running_kproxy.pid}) has not ended within {timeout:g} s", err=True)
    return 1


@kproxy.command("list")
def list_() -> int:
    """Show the profiles, and which of them run in the background."""
    needs_unix(click.get_current_context())
    from kproxy.cli.profiles import background, paths

    names = paths.names()
    if not names:
        directory = paths.profiles_directory()
        click.echo(f"no profile in {directory}: write NAME.yaml there, a file as for -c, and 'kproxy up @NAME'")
    for name in names:
        running_kproxy = background.running(name)
        if running_kproxy is None:
            click.echo(f"@{name}  does not run")
            continue
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(running_kproxy.since))
        asking = _admin_access_of(name, running_kproxy)
        reasons = asking.client(running_kproxy, 2.0).why_not_ready("one")
        click.echo(f"@{name}  {'not ready' if reasons else 'ready'}, process id {running_kproxy.pid}, since {since}")
        for line in _kproxy_lines(name, running_kproxy, asking):
            click.echo(f"  {line}")
        for reason in reasons:
            click.echo(f"  not ready: {reason}")
    return 0


def _window(name: str, config: Config, origins: Mapping[tuple[str | int, ...], str]) -> Window | None:
    """Return the profile's own ports, if it configures none itself."""
    from kproxy.base.errors import ConfigError
    from kproxy.cli.profiles import ports

    if config.admin is None:
        raise ConfigError(
            f"{origins.get(('admin',), 'admin')}: is off, and kproxy up asks it whether kproxy is ready; leave it out"
        )
    lacks_listen = len(config.clusters) == 1 and ("clusters", 0, "listen") not in origins
    if lacks_listen or ("admin",) not in origins:
        return ports.window(name)
    return None


def _command(
    file: Path, flags: Mapping[str, object], window: Window | None, origins: Mapping[tuple[str | int, ...], str]
) -> list[str]:
    """Return the words after `kproxy run`. Secrets are not among them, because they have no flags."""
    from kproxy.config.commandline import option_words

    command = list(option_words(file.absolute(), flags, mask_passwords=False))
    if window is not None:
        if ("clusters", 1) not in origins and ("clusters", 0, "listen") not in origins:
            command += ["--listen", window.listen]
        if ("admin",) not in origins:
            command += ["--admin", window.admin]
    return command


def _write(file: Path, content: bytes, use: str) -> int:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    click.echo(f"wrote {file}; to use it: {use}")
    return 0


def _print_kproxy(name: str, kproxy_process: BackgroundKproxy, asking: AdminAccess) -> None:
    for line in _kproxy_lines(name, kproxy_process, asking):
        click.echo(line)
    click.echo(f"kproxy down @{name} ends it")


def _kproxy_lines(name: str, kproxy_process: BackgroundKproxy, asking: AdminAccess) -> Iterator[str]:
    from kproxy.base.errors import AdminError
    from kproxy.cli.profiles import background

    try:
        for cluster, bootstrap in background.bootstraps(kproxy_process, asking):
            yield f"cluster {cluster}: bootstrap.servers={bootstrap}"
    except AdminError as error:
        yield str(error)
    yield f"status page: {asking.page(kproxy_process)}"
    yield f"log: {background.log_of(name)}"


def _admin_access(config: Config) -> AdminAccess:
    """Return the access to the admin endpoint of the profile's kproxy. Raises ConfigError and UsageError."""
    from kproxy.cli.profiles.background import AdminAccess
    from kproxy.proxy.admin import bearer

    token = config.admin_token if config.admin_token_file is None else bearer.read_file(config.admin_token_file)
    if config.admin_tls_cert is None or config.admin is None:
        return AdminAccess(token)
    cert, password = config.admin_tls_cert, config.admin_tls_key_password
    return AdminAccess(token, trusting_context(cert, config.admin, password, "admin-tls-cert"))


def _admin_access_of(name: str, kproxy_process: BackgroundKproxy) -> AdminAccess:
    from kproxy.base.errors import ConfigError
    from kproxy.cli.profiles import paths
    from kproxy.cli.profiles.background import AdminAccess
    from kproxy.config import load

    try:
        flags = {
            "admin": kproxy_process.admin,
            **({"admin_tls_cert": kproxy_process.cert} if kproxy_process.cert else {}),
        }
        return _admin_access(load(flags, os.environ, paths.profile(f"@{name}")))
    except (ConfigError, click.UsageError):  # the configuration has become wrong since: continue without it
        return AdminAccess()
