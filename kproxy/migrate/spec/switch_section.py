"""The section `switch` of a migration's file: which kproxies there are, and how they are asked."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import yaml

from kproxy.base.address import Address
from kproxy.config import kinds, quantities
from kproxy.config.values import quote

T = TypeVar("T")

HTTPS = "https://"
PORT = 19091
_LIST = "[[https://]HOST:PORT, …], {dns: [https://]NAME:PORT} or {kubernetes: LABELS}"
_KUBERNETES_KEYS = ("kubernetes", "namespace", "port", "kubeconfig", "https")
# Clients give up a request after 30 seconds.
LONGEST_HOLD = 25
_MAX_LAG = 10**12


@dataclass(frozen=True, slots=True)
class KproxySelection:
    """One of three: `addresses`, each with https:// or without; `dns`: a name, each of whose addresses is one;
    `labels`: of pods, as `kubectl get pods -l` takes them."""

    addresses: tuple[str, ...] = ()
    dns: str = ""
    labels: str = ""
    namespace: str = ""
    port: int = PORT
    https: bool = False
    kubeconfig: Path | None = None


@dataclass(frozen=True, slots=True)
class SwitchSection:
    """`cluster`: what the kproxies call it; `to`: which of its upstreams is the target. `hold_seconds`: how long writes
    are held at most. `max_lag`: offsets that may still be to copy when the hold begins. `server_name`: what stands in
    the kproxies' certificates, "" for how they are addressed."""

    kproxies: KproxySelection
    target_upstream: str
    cluster: str = "default"
    token_file: Path | None = None
    ca: Path | None = None
    server_name: str = ""
    hold_seconds: float = 20.0
    max_lag: int = 100_000


class SectionReader(Protocol):
    """What reads the file."""

    def problem(self, node: yaml.Node | None, path: str, text: str) -> None: ...

    def pairs(
        self, node: yaml.MappingNode, at: str, known: Iterable[str]
    ) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]: ...

    def scalar(self, node: yaml.Node, path: str, parse: Callable[[str], T], allowed: str) -> T | None: ...


def read_switch_section(tree: SectionReader, node: yaml.MappingNode) -> SwitchSection | None:
    """None if something is missing; the tree has the problems then."""
    hold, lag = quantities.duration(1, LONGEST_HOLD), quantities.count(0, _MAX_LAG)
    scalars: dict[str, tuple[Callable[[str], Any], str]] = {
        "to": (kinds.name().parse, kinds.name().allowed),
        "cluster": (kinds.name().parse, kinds.name().allowed),
        "token-file": (_parse_file, "a file"),
        "ca": (_parse_file, "a file"),
        "server-name": (kinds.server_name().parse, kinds.server_name().allowed),
        "hold-seconds": (hold.parse, hold.allowed),
        "max-lag": (lag.parse, lag.allowed),
    }
    given: dict[str, Any] = {}
    for key, value in tree.pairs(node, "switch.", ("kproxies", *scalars)):
        path = f"switch.{key.value}"
        found = (
            _read_kproxies(tree, value, path)
            if key.value == "kproxies"
            else tree.scalar(value, path, *scalars[key.value])
        )
        if found is not None:
            given[key.value.replace("-", "_")] = found
    words = {key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)}
    for word, example in (("kproxies", _LIST), ("to", "the name of an upstream, such as green")):
        if word not in words:
            tree.problem(node, f"switch.{word}", f"is missing; allowed: {example}")
    return SwitchSection(**given) if {"kproxies", "to"} <= given.keys() else None


def _read_kproxies(tree: SectionReader, node: yaml.Node, path: str) -> KproxySelection | None:
    if isinstance(node, yaml.MappingNode):
        return _read_discovery(tree, node, path)
    items = node.value if isinstance(node, yaml.SequenceNode) else [node]
    texts = [tree.scalar(item, path, parse_kproxy_address, _LIST) for item in items]
    if any(text is None for text in texts):
        return None
    addresses = tuple(text for text in texts if text is not None)
    twice = {text for text in addresses if addresses.count(text) > 1}
    if not addresses or twice:
        tree.problem(node, path, f"{min(twice)} is given twice" if twice else f"is empty; allowed: {_LIST}")
        return None
    return KproxySelection(addresses)


def _read_discovery(tree: SectionReader, node: yaml.MappingNode, path: str) -> KproxySelection | None:
    """Those that have to be looked for."""
    port = quantities.count(1, 65535)
    known: dict[str, tuple[Callable[[str], Any], str]] = {
        "dns": (parse_kproxy_address, "[https://]NAME:PORT"),
        "kubernetes": (_parse_labels, "labels of pods, such as app=kproxy"),
        "namespace": (kinds.name().parse, kinds.name().allowed),
        "port": (port.parse, port.allowed),
        "kubeconfig": (_parse_file, "a file"),
        "https": (kinds.boolean().parse, kinds.boolean().allowed),
    }
    given: dict[str, Any] = {
        key.value: tree.scalar(value, f"{path}.{key.value}", *known[key.value])
        for key, value in tree.pairs(node, f"{path}.", known)
    }
    if ("dns" in given) == ("kubernetes" in given) or ("dns" in given and len(given) > 1):
        what = f"has {', '.join(given)}" if given else "is empty"
        tree.problem(node, path, f"{what}; allowed: {_LIST}, and with kubernetes: {', '.join(_KUBERNETES_KEYS[1:])}")
        return None
    if any(value is None for value in given.values()):
        return None
    if "dns" in given:
        return KproxySelection(dns=given["dns"])
    return KproxySelection(labels=given.pop("kubernetes"), **given)


def parse_kproxy_address(text: str) -> str:
    """A canonical form. Raises ValueError."""
    https = text.startswith(HTTPS)
    address = Address.parse(text.removeprefix(HTTPS).removeprefix("http://").removesuffix("/"), PORT)
    return f"{HTTPS if https else ''}{address}"


def _parse_file(text: str) -> Path:
    if not text.strip():
        raise ValueError(f"{quote(text)} is not a file")
    return Path(os.path.abspath(Path(text).expanduser()))


def _parse_labels(text: str) -> str:
    if not re.fullmatch(r"[\w./=!, ()-]{1,500}", text):
        raise ValueError(f"{quote(text)} are no labels; allowed: such as app=kproxy, or 'app=kproxy,tier=edge'")
    return text
