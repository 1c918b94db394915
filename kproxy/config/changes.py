"""The differences between two configurations, and whether a running kproxy can apply them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from kproxy.config.checks import share_ports
from kproxy.config.declarations import Reload
from kproxy.config.hop import mask
from kproxy.config.options import ClusterConfig, Config, Setting, cluster_settings, process_settings


@dataclass(frozen=True, slots=True)
class ConfigChanges:
    """The differences between two configurations."""

    lines: Sequence[str] = ()
    """Texts for people, one for each changed option, without secrets."""
    refused: Sequence[str] = ()
    """Reasons why kproxy must be restarted, empty if it need not."""


def compare(old: Config, new: Config) -> ConfigChanges:
    """Compare two configurations. A cluster is the same one if it has the same name."""
    before, after = _by_name(old), _by_name(new)
    gone = [one[0] for name, one in before.items() if name not in after]
    added = [one[0] for name, one in after.items() if name not in before]
    lines = [f"cluster {cluster.name}: removed" for cluster in gone]
    lines += [f"cluster {cluster.name}: added" for cluster in added]
    restart = [
        f"cluster {one.name} would have ports of cluster {other.name}, which is removed"
        for one in added
        for other in gone
        if share_ports(one, other)
    ]
    refused: list[str] = []
    both = [(before[name], after[name]) for name in after if name in before]
    several = len(before | after) > 1 or any(len(one) > 1 for pair in both for one in pair)
    pairs: list[tuple[str, Sequence[Setting], BaseModel, BaseModel]] = []
    for was, becomes in both:
        if wrong := _wrong_active(was[0], becomes[0]):
            refused.append(wrong)
            continue
        lines += _of_upstreams(was, becomes)
        of_name = {one.upstream: one for one in was}, {one.upstream: one for one in becomes}
        for former, later in successors(was, becomes).items():
            one, other = of_name[0][former], of_name[1][later]
            pairs.append((f"cluster {other.title}: " if several else "", changed_settings(one, other), one, other))
    pairs.append(("", list(_different(old, new, process_settings().values())), old, new))
    for whose, settings, before_it, after_it in pairs:
        for setting in settings:
            if _needs_restart(setting, before_it):
                shown = f"{_shown(setting, before_it)} → {_shown(setting, after_it)}"
                restart.append(f"{whose}{setting.key} has changed" + ("" if setting.option.secret else f" ({shown})"))
            else:
                lines.append(f"{whose}{setting.key}: {_shown(setting, after_it)}")
    return ConfigChanges(lines, [*refused, *(f"{one}: only a restart can change that" for one in restart)])


def _by_name(config: Config) -> dict[str, tuple[ClusterConfig, ...]]:
    """Return the upstreams of each cluster, the active one first."""
    return {one.name: (one, *config.others(one.name)) for one in config.served}


def successors(old: Sequence[ClusterConfig], new: Sequence[ClusterConfig]) -> Mapping[str, str]:
    """Return which upstreams of a cluster continue, and under which name.

    The active upstream is the first of each, and always continues, since a reload moves no clients. Another one
    continues if it keeps its name and may be the same Kafka cluster.
    """
    after = {one.upstream: one for one in new[1:]}
    goes_on = {old[0].upstream: new[0].upstream}
    for one in old[1:]:
        if may_be_same_cluster(one, after.get(one.upstream)):
            goes_on[one.upstream] = one.upstream
    return goes_on


def may_be_same_cluster(one: ClusterConfig, later: ClusterConfig | None) -> bool:
    """Return True if an inactive upstream and one of another configuration may be the same Kafka cluster."""
    return later is not None and one.cluster_id == later.cluster_id and _share_servers(one, later)


def _share_servers(one: ClusterConfig, other: ClusterConfig) -> bool:
    return not set(one.bootstrap_servers).isdisjoint(other.bootstrap_servers)


def _wrong_active(was: ClusterConfig, becomes: ClusterConfig) -> str:
    """Return why the active upstream cannot change in this way, or ""."""
    if was.upstream == becomes.upstream:
        return ""
    if was.upstream and becomes.upstream:
        text = "a reload would lose records; kproxy migrate switch does it safely"
        return f"cluster {was.name}: active has changed ({was.upstream} → {becomes.upstream}): {text}"
    if not _share_servers(was, becomes):
        servers = ", ".join(str(server) for server in was.bootstrap_servers)
        return (
            f"cluster {was.name}: clients are routed to {servers}, and {becomes.title} has none of these bootstrap"
            " servers: begin with the same ones; a reload after this one may change them"
        )
    return ""


def _of_upstreams(old: Sequence[ClusterConfig], new: Sequence[ClusterConfig]) -> Iterator[str]:
    """Yield the texts for upstreams that were added or removed."""
    goes_on = successors(old, new)
    if old[0].upstream != new[0].upstream:
        yield f"cluster {old[0].title}: is {new[0].title} from now on"
    yield from (f"cluster {one.title}: removed" for one in old if one.upstream not in goes_on)
    yield from (f"cluster {one.title}: added" for one in new if one.upstream not in goes_on.values())


def _needs_restart(setting: Setting, was: BaseModel) -> bool:
    if setting.option.reload is Reload.ADDED:
        return getattr(was, setting.name) is not None
    return setting.option.reload is Reload.RESTART


def changed_settings(old: ClusterConfig, new: ClusterConfig) -> Sequence[Setting]:
    """Return the options of a cluster with another value."""
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
