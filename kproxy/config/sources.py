"""Flags and environment variables, and the layer that each source of values becomes.

A layer has text that is not validated yet, and its origin for errors.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kproxy.base.diagnostic import ERROR, Diagnostic, DiagnosticPlace
from kproxy.base.messages.start import DID_YOU_MEAN
from kproxy.config.checks import OptionPath
from kproxy.config.declarations import ENV_PREFIX, Setting
from kproxy.config.options import all_settings

# Of an unknown word: how many allowed words are listed, how many are named if there are more, and how much is compared.
_LISTED, _NEAREST, _LONGEST = 16, 3, 100
# The key of a cluster under which its upstreams stand.
UPSTREAMS = "upstreams"
# Variables with kproxy's prefix that are no options: for the command itself, for `exec`, for the demo cluster.
CONFIG_VARIABLE = ENV_PREFIX + "CONFIG"
BOOTSTRAP_VARIABLE = ENV_PREFIX + "BOOTSTRAP"
_OTHERS = ("CONFIG", "DEBUG", "BOOTSTRAP", "CACHE", "COMPILED", "PURE")
OTHER_VARIABLES = frozenset(ENV_PREFIX + name for name in _OTHERS)
# Kubernetes sets these in every pod beside a Service whose name begins with "kproxy".
_SERVICE_LINK = re.compile(
    r"KPROXY_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)


REMOVED = {
    "workers": "was removed; allowed: several kproxies with reuse-port, see docs/performance.md#more-than-one-core"
}
"""Removed options, and what to write instead."""


def mistake(place: DiagnosticPlace | None, path: str, text: str) -> Diagnostic:
    """Return one mistake: its place, what is wrong, what is allowed. `path` is the key in a file, otherwise ""."""
    return Diagnostic(ERROR, path, text, place=place)


@dataclass(slots=True)
class Layer:
    """The values of one source by key: text, or a list of text for repeatable options."""

    process: dict[str, object] = field(default_factory=dict)
    clusters: list[dict[str, object]] = field(default_factory=list)
    origins: dict[OptionPath, DiagnosticPlace] = field(default_factory=dict)
    paths: dict[int, str] = field(default_factory=dict)
    """Paths of clusters in the file that differ from their place in the list: in `upstreams`."""
    listed: int = 0
    """Number of clusters in the file."""
    problems: list[Diagnostic] = field(default_factory=list)
    failed: set[OptionPath] = field(default_factory=set)
    """Places that have been reported already."""
    nested: bool = False
    """True if clusters are in a list."""
    broken: bool = False
    """True if the source could not be read, so that missing values prove nothing."""

    def put(self, setting: Setting, value: object, origin: DiagnosticPlace, cluster: int = 0) -> None:
        """Store a value; text for a repeatable option is split at commas, unless its values may have commas."""
        loc = setting_loc(setting, cluster)
        self.origins[loc] = origin
        if setting.repeatable:
            items = [value] if isinstance(value, str) else list(value) if isinstance(value, Iterable) else [value]
            parts = items if setting.kind.has_commas else [part for item in items for part in split(item)]
            self.values(setting, cluster)[setting.key] = parts
        else:
            self.values(setting, cluster)[setting.key] = value

    def values(self, setting: Setting, cluster: int = 0) -> dict[str, object]:
        """Return the values beside those of `setting`."""
        if not setting.in_cluster:
            return self.process
        while len(self.clusters) <= cluster:
            self.clusters.append({})
        return self.clusters[cluster]


def setting_loc(setting: Setting, cluster: int) -> OptionPath:
    """Return the path of a setting in the data that the models validate."""
    return ("clusters", cluster, setting.key) if setting.in_cluster else (setting.key,)


def split(item: object) -> Iterator[object]:
    """Yield the parts of comma-separated text, without empty ones; any other value is one part."""
    if isinstance(item, str):
        yield from (part.strip() for part in item.split(",") if part.strip())
    else:
        yield item


def read_flags(flags: Mapping[str, object]) -> Layer:
    """Return the layer of flags, by Python names of options; None means not given."""
    layer = Layer()
    settings = {setting.name: setting for setting in all_settings() if setting.flag}
    for name, value in flags.items():
        if name not in settings:
            raise TypeError(f"no option is called {name}")
        if value is not None:
            layer.put(settings[name], value, DiagnosticPlace(settings[name].flag))
    return layer


def read_environment(env: Mapping[str, str]) -> Layer:
    """Return the layer of `KPROXY_*`; an empty variable counts as not set, as Compose files leave it."""
    layer = Layer()
    settings = {setting.env: setting for setting in all_settings()}
    for variable, value in sorted(env.items()):
        if not variable.startswith(ENV_PREFIX) or variable in OTHER_VARIABLES or _SERVICE_LINK.fullmatch(variable):
            continue
        if variable not in settings:
            if variable.startswith(BOOTSTRAP_VARIABLE) and BOOTSTRAP_VARIABLE in env:
                continue  # a command of `kproxy exec`, which tells it the address of every cluster
            close = closest(variable, settings, variable.upper())
            text = REMOVED.get(variable.removeprefix(ENV_PREFIX).lower()) or (
                "no such variable; " + suggestion(variable, close, settings, "kproxy run --help")
            )
            layer.problems.append(mistake(DiagnosticPlace(variable), "", text))
        elif value.strip():
            layer.put(settings[variable], value, DiagnosticPlace(variable))
    return layer


def environment_of_commands(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a command of the user, without what configures this kproxy and may be secret."""
    own = {CONFIG_VARIABLE, *(setting.env for setting in all_settings())}
    return {name: value for name, value in env.items() if name not in own}


def closest(word: str, known: Iterable[str], normal: str) -> str:
    """Return the known word that was probably meant, or "". `normal` is the word in the usual spelling."""
    known = sorted(known)
    return next(iter(_similar(normal, known, 1, 0.75) or _similar(word, known, 1, 0.75)), "")


def suggestion(word: str, close: str, known: Collection[str], where: str) -> str:
    """Return what to write instead of a word: the `close` one, all allowed words, or, of many, the nearest.

    `where` is the command that lists all of them.
    """
    if close:
        return DID_YOU_MEAN(word=close)
    if len(known) <= _LISTED:
        return f"allowed: {', '.join(sorted(known))}"
    near = ", ".join(_similar(word, sorted(known), _NEAREST, 0.6))
    return f"{f'nearest: {near}; ' if near else ''}allowed: those of '{where}'"


def _similar(word: str, known: Sequence[str], most: int, likeness: float) -> list[str]:
    from difflib import get_close_matches  # only a mistake needs it

    return get_close_matches(word[:_LONGEST], known, most, likeness)
