"""The command lines that help where `kproxy run` does not reach a broker. Pure.

They are a run line for other addresses, where those may help, and the doctor line.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kproxy.config import Config
from kproxy.proxy.cluster.reachability import ExplorationState
from kproxy.proxy.status.model import ClusterStatus

# A line with more maps than this is no help.
_MOST_MAPS = 8


@dataclass(frozen=True, slots=True)
class Invocation:
    """The command line with which kproxy was started, without secrets."""

    run_arguments: tuple[str, ...]
    """The arguments of `kproxy run`, without --map."""
    connection_arguments: tuple[str, ...]
    """The arguments that name the cluster, and how it is reached, --map included."""


def node_hints(invocation: Invocation, config: Config, cluster: ClusterStatus) -> list[str]:
    """Return what to do next, a line each; empty if all nodes can be reached."""
    if not cluster.out_of_reach:
        return []
    commands = [*_other_addresses(invocation, config, cluster), _doctor(invocation)]
    return [f"{purpose}: {command}" for purpose, command in commands]


def fix_lines(invocation: Invocation, config: Config, cluster: ClusterStatus) -> list[str]:
    """Return the same for a finding: a comment and a command each, first the one that changes nothing."""
    commands = [_doctor(invocation), *_other_addresses(invocation, config, cluster)]
    return [line for purpose, command in commands for line in (f"# {purpose}", command)]


def _other_addresses(invocation: Invocation, config: Config, cluster: ClusterStatus) -> Iterator[tuple[str, str]]:
    """Yield a run line for other addresses of the nodes that cannot be reached, where those may help."""
    lost = cluster.out_of_reach
    elsewhere = [node.node for node in lost if node.may_be_elsewhere]
    if elsewhere and len(config.clusters) == 1:  # with several, a flag cannot say which one it means
        # The first map that matches counts; and the flags take the place of all maps of a variable or a file.
        given = [str(address_map) for address_map in config.clusters[0].map if address_map.node not in elsewhere]
        maps = [*(f"node:{label}=HOST:PORT" for label in elsewhere), *given]
        if len(maps) <= _MOST_MAPS:
            flags = [word for address_map in maps for word in ("--map", address_map)]
            # Not that it works: kproxy has not tried addresses that it does not know.
            yield "to try other addresses, write them into this", _line("run", [*invocation.run_arguments, *flags])


def bootstrap_hints(invocation: Invocation, config: Config, exploration: ExplorationState) -> list[str]:
    """Return what to do next, a line each, if no bootstrap server can be used; empty if one can."""
    if exploration.answered:
        return []
    lines = []
    if "upstream-speaks-tls-alert" in exploration.reasons and len(config.clusters) == 1:
        lines.append(f"the listener expects TLS: {_line('run', [*invocation.run_arguments, '--tls'])}")
    return [*lines, ": ".join(_doctor(invocation))]


def _doctor(invocation: Invocation) -> tuple[str, str]:
    return "to find out why", _line("doctor", invocation.connection_arguments)


def _line(command: str, words: Sequence[str]) -> str:
    return shlex.join(["kproxy", command, *words])
