"""Loading of flags, environment, file and client.properties into one valid `Config`, or of all mistakes at once.

Flags override the environment, which overrides the file, which overrides client.properties.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from kproxy.base.address import Address
from kproxy.base.diagnostic import Diagnostic
from kproxy.base.errors import ConfigError
from kproxy.base.printable import escaped
from kproxy.config import checks, protocols
from kproxy.config.checks import OptionPath, Violation
from kproxy.config.declarations import Setting, kebab
from kproxy.config.hop import mask
from kproxy.config.options import ClusterConfig, Config, cluster_settings, process_settings, upstream_settings
from kproxy.config.sources import CONFIG_VARIABLE, UPSTREAMS, Layer, mistake, read_environment, read_flags, setting_loc

# Replaces bootstrap servers that are missing or wrong, so that the other checks can run.
_PLACEHOLDER = (Address("missing.invalid", 1),)


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration, and the origin of each value that is no default (`kproxy.yaml:12`, `--listen`)."""

    config: Config
    origins: Mapping[OptionPath, str]


def load(
    flags: Mapping[str, object], env: Mapping[str, str], file: Path | None, defaults: Mapping[str, str] | None = None
) -> Config:
    """Return the effective configuration: see `read`."""
    return read(flags, env, file, defaults).config


def read(
    flags: Mapping[str, object],
    env: Mapping[str, str],
    file: Path | None,
    defaults: Mapping[str, str] | None = None,
    further: Callable[[Config], Iterable[Violation]] = lambda _: (),
) -> LoadedConfig:
    """Merge and validate all sources.

    `flags` has Python's names of options; None or absent means not given. Without `file`, KPROXY_CONFIG names it.
    `defaults`, by key, override those of the declaration. `further` runs checks that this room does not know; it sees
    defaults in place of values that are wrong. Raises ConfigError with a diagnostic for each mistake.
    """
    if file is None and env.get(CONFIG_VARIABLE, "").strip():
        file = Path(env[CONFIG_VARIABLE].strip())
    layers = [_read_file(file), read_environment(env), read_flags(flags)]
    merged = _merge(layers)
    for key, value in (defaults or {}).items():
        for values in [merged.process] if key in process_settings() else merged.clusters:
            values.setdefault(key, value)
    config, problems = _validate(merged, file, further)
    if problems:
        raise ConfigError(
            *dict.fromkeys(map(_masked, sorted(problems, key=_line)))
        )  # what upstreams share is wrong in each of them
    return LoadedConfig(config, {loc: str(origin) for loc, origin in merged.origins.items()})


def validate_layer(layer: Layer, file: Path) -> list[Diagnostic]:
    """Return the mistakes in a layer that another room has read from its own file, in the order of the file."""
    _, problems = _validate(_merge([layer]), file, lambda _: ())
    return sorted(problems, key=_line)


def _read_file(file: Path | None) -> Layer:
    if file is None:
        return Layer()
    from kproxy.config.yamlfile import read_file  # `kproxy run -b …` needs no YAML

    return read_file(file)


def _merge(layers: list[Layer]) -> Layer:
    """Merge layers; later ones win, and a list replaces a list completely."""
    merged, *others = layers
    several = merged.listed > 1
    for layer in others:
        merged.problems += layer.problems
        if several:
            for key in layer.clusters[0] if layer.clusters else ():
                text = "does not say which cluster it means, and the file has several"
                place = merged.origins["clusters", 0].name
                origin = layer.origins["clusters", 0, key]
                merged.problems.append(mistake(origin, "", f"{text}; allowed: put {key} under its cluster in {place}"))
        for given in (*process_settings().values(), *(() if several else cluster_settings().values())):
            given_at = setting_loc(given, 0)
            if given_at not in layer.origins:
                continue
            origin = layer.origins[given_at]
            if len(merged.clusters) > 1 and given.key in upstream_settings():
                text = f"does not say which upstream it means; allowed: put {given.key} under its upstream in"
                merged.problems.append(mistake(origin, "", f"{text} {merged.origins['clusters', 0].name}"))
                continue
            # Each upstream of a cluster has the options that they share.
            for at in range(max(1, len(merged.clusters)) if given.in_cluster else 1):
                loc = setting_loc(given, at)
                for old in [old for old in merged.origins if old[: len(loc)] == loc]:
                    del merged.origins[old]
                merged.failed.discard(loc)
                merged.values(given, at)[given.key] = layer.values(given)[given.key]
                merged.origins[loc] = origin
    if not merged.clusters:
        merged.clusters.append({})
    for cluster, values in enumerate(merged.clusters):
        if values.get("client-config"):
            from kproxy.config.clientfile import read_client_config  # rarely needed

            read_client_config(merged, cluster)
    return merged


def _validate(
    merged: Layer, file: Path | None, further: Callable[[Config], Iterable[Violation]]
) -> tuple[Config, list[Diagnostic]]:
    problems = list(merged.problems)
    server_protocols: protocols.ServerProtocols = {}
    for index, cluster in enumerate(merged.clusters):
        server_protocols |= protocols.strip_protocols(index, cluster)
    validator = _Validator(merged, file, problems)
    config = validator.config()
    contradictions = protocols.find_contradictions(config, server_protocols)
    for violation in chain(_violations(config), contradictions, further(config)):
        if not any(_within(loc, merged.failed | validator.wrong) for loc in violation.locs):
            problems.append(_problem(merged, violation.locs, violation.text))
    return config, problems


class _Validator:
    """Makes a configuration of a layer. Mistakes go to `problems`, and options with mistakes keep their defaults."""

    def __init__(self, merged: Layer, file: Path | None, problems: list[Diagnostic]) -> None:
        self.merged = merged
        self.file = file
        self.problems = problems
        self.wrong: set[OptionPath] = set()

    def config(self) -> Config:
        clusters = []
        for index, given in enumerate(self.merged.clusters):
            values = self.values(cluster_settings(), given, ("clusters", index))
            values |= {name: given[name] for name in ("upstream", "active") if name in given}
            clusters.append(ClusterConfig(**({"bootstrap_servers": _PLACEHOLDER} | values), checked=False))
        values = self.values(process_settings(), self.merged.process, ())
        return Config(clusters=tuple(clusters), **values, checked=False)

    def values(self, settings: Mapping[str, Setting], given: Mapping[str, Any], at: OptionPath) -> dict[str, Any]:
        """Return the valid values by the names of their fields."""
        values: dict[str, Any] = {}
        for key, setting in settings.items():
            loc = (*at, key)
            if key in given:
                values[setting.name] = (
                    tuple(self.read(setting, (*loc, number), item) for number, item in enumerate(given[key]))
                    if setting.repeatable
                    else self.read(setting, loc, given[key])
                )
            elif setting.required:
                self.missing(setting, loc)
        return {name: value for name, value in values.items() if (*at, kebab(name)) not in self.wrong}

    def read(self, setting: Setting, loc: OptionPath, text: object) -> object:
        try:
            return setting.kind.read(text)
        except ValueError as error:
            reason = (
                f"the value (not shown) is wrong; allowed: {setting.kind.allowed}" if setting.secret else str(error)
            )
            if not _within(loc, self.merged.failed):  # else reported already
                self.problems.append(_problem(self.merged, (loc,), reason))
            self.wrong.add(loc[:3] if setting.in_cluster else loc[:1])
            return None

    def missing(self, setting: Setting, loc: OptionPath) -> None:
        self.wrong.add(loc)
        if _within(loc, self.merged.failed) or self.merged.broken:
            return  # reported already, or unknown
        if self.merged.nested or loc[1] in self.merged.paths:
            text = f"is missing; allowed: {setting.kind.allowed}"
            self.problems.append(_problem(self.merged, (loc,), text))
        else:
            allowed = f"{setting.short} {setting.kind.metavar}, {setting.env}, or {setting.key} in "
            text = f"no bootstrap server is given; allowed: {allowed}{self.file or 'a file (-c FILE)'}"
            self.problems.append(mistake(None, "", text))


def _within(loc: OptionPath, places: set[OptionPath]) -> bool:
    return any(loc[:length] in places for length in range(1, len(loc) + 1))


def _violations(config: Config) -> Iterator[Violation]:
    per_cluster = (checks.check_cluster(cluster, ("clusters", i)) for i, cluster in enumerate(config.clusters))
    return chain(chain.from_iterable(per_cluster), checks.check_clusters(config))


def _problem(merged: Layer, locs: tuple[OptionPath, ...], text: str) -> Diagnostic:
    """Return a problem at the place where the user wrote the first of these options."""
    given = next((loc for loc in locs if loc in merged.origins or loc[:3] in merged.origins), None)
    loc = given or locs[0]
    lengths = range(len(loc), 0, -1)
    origin = next((merged.origins[loc[:length]] for length in lengths if loc[:length] in merged.origins), None)
    bare = origin is not None and not origin.line  # the name of a flag or variable is enough
    return mistake(origin, "" if bare else _path(loc, merged), text)


def _path(loc: OptionPath, merged: Layer) -> str:
    parts = [f"[{part}]" if isinstance(part, int) else part for part in loc]
    if loc[0] == "clusters" and len(loc) > 1:
        at = loc[1]
        assert isinstance(at, int)
        path = merged.paths.get(at)
        if path is not None and UPSTREAMS in path and len(loc) > 2 and loc[2] not in upstream_settings():
            path = path.rpartition(UPSTREAMS)[0].rstrip(".")  # its upstreams share it
        parts[:2] = ([path] if path else []) if path is not None else parts[:2] if merged.nested else []
    return re.sub(r"\.(\[)", r"\1", ".".join(parts))


def _masked(problem: Diagnostic) -> Diagnostic:
    """Return a mistake whose texts are printable and have no passwords."""
    place = problem.place and replace(problem.place, name=escaped(problem.place.name))
    return replace(problem, place=place, subject=escaped(problem.subject), text=escaped(mask(problem.text)))


def _line(problem: Diagnostic) -> tuple[int, int]:
    in_file = problem.place is not None and problem.place.line > 0
    return (0, problem.place.line) if in_file and problem.place else (1, 0)
