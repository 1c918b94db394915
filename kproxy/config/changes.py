"""The differences between two configurations, and whether a running kproxy can apply them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kproxy.base.messages.switches import ACTIVE_CHANGED, BOOTSTRAP_SERVERS_REPLACED, RELOAD_LOSES_RECORDS
from kproxy.config.checks import share_ports
from kproxy.config.declarations import Options, Reload, Setting
from kproxy.config.hop import mask
from kproxy.config.options import ClusterConfig, Config, cluster_settings, process_settings


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
    removed = [upstreams[0] for name, upstreams in before.items() if name not in after]
    added = [upstreams[0] for name, upstreams in after.items() if name not in before]
    lines = [f"cluster {cluster.name}: removed" for cluster in removed]
    lines += [f"cluster {cluster.name}: added" for cluster in added]
    restart = [
        f"cluster {added_cluster.name} would have ports of cluster {removed_cluster.name}, which is removed"
        for added_cluster in added
        for removed_cluster in removed
        if share_ports(added_cluster, removed_cluster)
    ]
    refused: list[str] = []
    both = [(before[name], after[name]) for name in after if name in before]
    several = len(before | after) > 1 or any(len(upstreams) > 1 for pair in both for upstreams in pair)
    pairs: list[tuple[str, Sequence[Setting], Options, Options]] = []
    for old_upstreams, new_upstreams in both:
        if reason := _wrong_active(old_upstreams[0], new_upstreams[0]):
            refused.append(reason)
            continue
        lines += _of_upstreams(old_upstreams, new_upstreams)
        old_by_name = {cluster.upstream: cluster for cluster in old_upstreams}
        new_by_name = {cluster.upstream: cluster for cluster in new_upstreams}
        for former, later in successors(old_upstreams, new_upstreams).items():
            old_cluster, new_cluster = old_by_name[former], new_by_name[later]
            prefix = f"cluster {new_cluster.title}: " if several else ""
            pairs.append((prefix, changed_settings(old_cluster, new_cluster), old_cluster, new_cluster))
    pairs.append(("", list(_different(old, new, process_settings().values())), old, new))
    for prefix, settings, old_values, new_values in pairs:
        for setting in settings:
            if _needs_restart(setting, old_values):
                shown = f"{_shown(setting, old_values)} → {_shown(setting, new_values)}"
                restart.append(f"{prefix}{setting.key} has changed" + ("" if setting.secret else f" ({shown})"))
            else:
                lines.append(f"{prefix}{setting.key}: {_shown(setting, new_values)}")
    return ConfigChanges(lines, [*refused, *(f"{text}: only a restart can change that" for text in restart)])


def _by_name(config: Config) -> dict[str, tuple[ClusterConfig, ...]]:
    """Return the upstreams of each cluster, the active one first."""
    return {cluster.name: (cluster, *config.others(cluster.name)) for cluster in config.served}


def successors(old: Sequence[ClusterConfig], new: Sequence[ClusterConfig]) -> Mapping[str, str]:
    """Return which upstreams of a cluster continue, and under which name.

    The active upstream is the first of each, and always continues, since a reload moves no clients. Another one
    continues if it keeps its name and may be the same Kafka cluster.
    """
    after = {upstream.upstream: upstream for upstream in new[1:]}
    continuing = {old[0].upstream: new[0].upstream}
    for upstream in old[1:]:
        if may_be_same_cluster(upstream, after.get(upstream.upstream)):
            continuing[upstream.upstream] = upstream.upstream
    return continuing


def may_be_same_cluster(earlier: ClusterConfig, later: ClusterConfig | None) -> bool:
    """Return True if an inactive upstream and one of another configuration may be the same Kafka cluster."""
    return later is not None and earlier.cluster_id == later.cluster_id and _share_servers(earlier, later)


def _share_servers(cluster: ClusterConfig, other: ClusterConfig) -> bool:
    return not set(cluster.bootstrap_servers).isdisjoint(other.bootstrap_servers)


def _wrong_active(old_upstream: ClusterConfig, new_upstream: ClusterConfig) -> str:
    """Return why the active upstream cannot change in this way, or ""."""
    if old_upstream.upstream == new_upstream.upstream:
        return ""
    if old_upstream.upstream and new_upstream.upstream:
        text = RELOAD_LOSES_RECORDS()
        names = f"{old_upstream.upstream} → {new_upstream.upstream}"
        return ACTIVE_CHANGED(name=old_upstream.name, names=names, text=text)
    if not _share_servers(old_upstream, new_upstream):
        servers = ", ".join(str(server) for server in old_upstream.bootstrap_servers)
        return BOOTSTRAP_SERVERS_REPLACED(name=old_upstream.name, servers=servers, title=new_upstream.title)
    return ""


def _of_upstreams(old: Sequence[ClusterConfig], new: Sequence[ClusterConfig]) -> Iterator[str]:
    """Yield the texts for upstreams that were added or removed."""
    continuing = successors(old, new)
    if old[0].upstream != new[0].upstream:
        yield f"cluster {old[0].title}: is {new[0].title} from now on"
    yield from (f"cluster {upstream.title}: removed" for upstream in old if upstream.upstream not in continuing)
    yield from (f"cluster {upstream.title}: added" for upstream in new if upstream.upstream not in continuing.values())


def _needs_restart(setting: Setting, was: Options) -> bool:
    if setting.reload is Reload.ADDED:
        return getattr(was, setting.name) is not None
    return setting.reload is Reload.RESTART


def changed_settings(old: ClusterConfig, new: ClusterConfig) -> Sequence[Setting]:
    """Return the options of a cluster with another value."""
    return list(_different(old, new, cluster_settings().values()))


def _different(old: Options, new: Options, settings: Iterable[Setting]) -> Iterator[Setting]:
    for setting in settings:
        if getattr(old, setting.name) != getattr(new, setting.name):
            yield setting


def _shown(setting: Setting, values: Options) -> str:
    value = getattr(values, setting.name)
    if setting.secret:
        return "another value" if value is not None else "none"
    if setting.repeatable:
        return ", ".join(mask(str(setting.kind.show(item))) for item in value) or setting.unset
    shown = setting.kind.show(value)
    if shown is None or (value is None and shown != "off"):
        return setting.unset
    return mask(str(shown).lower() if isinstance(shown, bool) else str(shown))
