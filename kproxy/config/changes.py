"""What is different between two configurations, and whether a running kproxy can take it over. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from kproxy.config.checks import share_ports
from kproxy.config.declaring import Reload
from kproxy.config.hop import mask
from kproxy.config.options import ClusterConfig, Config, Setting, cluster_settings, process_settings


@dataclass(frozen=True, slots=True)
class Changes:
    """`lines`: what is different, an option each, for people; secrets are not shown. `refused`: why kproxy must be
    restarted for it, a line each, empty if it need not."""

    lines: Sequence[str] = ()
    refused: Sequence[str] = ()


def compare(old: Config, new: Config) -> Changes:
    """From one configuration to another. A cluster is the same one if it has the same name."""
    before = {cluster.name: cluster for cluster in old.clusters}
    after = {cluster.name: cluster for cluster in new.clusters}
    new_ones = [cluster for name, cluster in after.items() if name not in before]
    gone = [cluster for name, cluster in before.items() if name not in after]
    lines = [f"cluster {cluster.name}: removed" for cluster in gone]
    lines += [f"cluster {cluster.name}: added" for cluster in new_ones]
    refused = [
        f"cluster {one.name} would have ports of cluster {other.name}, which is gone"
        for one in new_ones
        for other in gone
        if share_ports(one, other)
    ]
    several = len(before | after) > 1
    pairs: list[tuple[str, Sequence[Setting], BaseModel, BaseModel]] = [
        (f"cluster {name}: " if several else "", changed(before[name], after[name]), before[name], after[name])
        for name in after
        if name in before
    ]
    pairs.append(("", list(_different(old, new, process_settings().values())), old, new))
    for whose, settings, was, becomes in pairs:
        for setting in settings:
            if setting.option.reload is Reload.RESTART:
                shown = f"{_shown(setting, was)} → {_shown(setting, becomes)}"
                refused.append(f"{whose}{setting.key} has changed" + ("" if setting.option.secret else f" ({shown})"))
            else:
                lines.append(f"{whose}{setting.key}: {_shown(setting, becomes)}")
    return Changes(lines, [f"{one}: only a restart can change that" for one in refused])


def changed(old: ClusterConfig, new: ClusterConfig) -> Sequence[Setting]:
    """The options of a cluster that have another value."""
    return list(_different(old, new, cluster_settings().values()))


def _different(old: BaseModel, new: BaseModel, settings: Iterable[Setting]) -> Iterator[Setting]:
    for setting in settings:
        if getattr(old, setting.name) != getattr(new, setting.name):
            yield setting


def _shown(setting: Setting, values: BaseModel) -> str:
    value = getattr(values, setting.name)
    if setting.option.secret:
        return "another value" if value is not None else "none"
    if setting.repeatable:
        return ", ".join(mask(str(setting.kind.show(one))) for one in value) or setting.option.unset
    shown = setting.kind.show(value)
    if shown is None or (value is None and shown != "off"):
        return setting.option.unset
    return mask(str(shown).lower() if isinstance(shown, bool) else str(shown))
