"""The section `switch` of a migration's file: the kproxies, and how to reach their admin endpoints."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import yaml

from kproxy.base.address import Address
from kproxy.config import kinds
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
    """The places where the kproxies are found; exactly one of `addresses`, `dns` and `labels` is given."""

    addresses: tuple[str, ...] = ()
    """Admin addresses, each with https:// or without."""
    dns: str = ""
    """A name; each of its addresses is a kproxy."""
    labels: str = ""
    """Labels of pods, as `kubectl get pods -l` takes them."""
    namespace: str = ""
    port: int = PORT
    https: bool = False
    kubeconfig: Path | None = None


@dataclass(frozen=True, slots=True)
class SwitchSection:
    """The options of the section `switch`."""

    kproxies: KproxySelection
    target_upstream: str
    """The kproxies' name for the upstream that is the target."""
    cluster: str = "default"
    """The kproxies' name for the cluster that is switched."""
    token_file: Path | None = None
    ca: Path | None = None
    server_name: str = ""
    """The name in the kproxies' certificates; "" for the host of their address."""
    hold_seconds: float = 20.0
    """The longest time for which writes are held."""
    max_lag: int = 100_000
    """The number of offsets that may still have to be copied when the hold begins."""


class SectionReader(Protocol):
    """The interface of the reader of the whole file."""

    def problem(self, node: yaml.Node | None, path: str, text: str) -> None: ...

    def pairs(
        self, node: yaml.MappingNode, prefix: str, allowed: Iterable[str]
    ) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]: ...

    def scalar(self, node: yaml.Node, path: str, parse: Callable[[str], T], allowed: str) -> T | None: ...


def read_switch_section(reader: SectionReader, node: yaml.MappingNode) -> SwitchSection | None:
    """Read the section; None if a required key is missing, which is then among the reader's problems."""
    hold, lag = kinds.duration(1, LONGEST_HOLD), kinds.count(0, _MAX_LAG)
    scalars: dict[str, tuple[Callable[[str], Any], str]] = {
        "target-upstream": (kinds.NAME.parse, kinds.NAME.allowed),
        "cluster": (kinds.NAME.parse, kinds.NAME.allowed),
        "token-file": (_parse_file, "a file"),
        "ca": (_parse_file, "a file"),
        "server-name": (kinds.SERVER_NAME.parse, kinds.SERVER_NAME.allowed),
        "hold-seconds": (hold.parse, hold.allowed),
        "max-lag": (lag.parse, lag.allowed),
    }
    values: dict[str, Any] = {}
    for key, value in reader.pairs(node, "switch.", ("kproxies", *scalars)):
        path = f"switch.{key.value}"
        parsed = (
            _read_kproxies(reader, value, path)
            if key.value == "kproxies"
            else reader.scalar(value, path, *scalars[key.value])
        )
        if parsed is not None:
            values[key.value.replace("-", "_")] = parsed
    words = {key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)}
    for word, example in (("kproxies", _LIST), ("target-upstream", "the name of an upstream, such as green")):
        if word not in words:
            reader.problem(node, f"switch.{word}", f"is missing; allowed: {example}")
    return SwitchSection(**values) if {"kproxies", "target_upstream"} <= values.keys() else None


def _read_kproxies(reader: SectionReader, node: yaml.Node, path: str) -> KproxySelection | None:
    if isinstance(node, yaml.MappingNode):
        return _read_discovery(reader, node, path)
    items = node.value if isinstance(node, yaml.SequenceNode) else [node]
    texts = [reader.scalar(item, path, parse_kproxy_address, _LIST) for item in items]
    if any(text is None for text in texts):
        return None
    addresses = tuple(text for text in texts if text is not None)
    twice = {text for text in addresses if addresses.count(text) > 1}
    if not addresses or twice:
        reader.problem(node, path, f"{min(twice)} is given twice" if twice else f"is empty; allowed: {_LIST}")
        return None
    return KproxySelection(addresses)


def _read_discovery(reader: SectionReader, node: yaml.MappingNode, path: str) -> KproxySelection | None:
    """Read a mapping that tells how to find the kproxies."""
    port = kinds.count(1, 65535)
    parsers: dict[str, tuple[Callable[[str], Any], str]] = {
        "dns": (parse_kproxy_address, "[https://]NAME:PORT"),
        "kubernetes": (_parse_labels, "labels of pods, such as app=kproxy"),
        "namespace": (kinds.NAME.parse, kinds.NAME.allowed),
        "port": (port.parse, port.allowed),
        "kubeconfig": (_parse_file, "a file"),
        "https": (kinds.BOOLEAN.parse, kinds.BOOLEAN.allowed),
    }
    values: dict[str, Any] = {
        key.value: reader.scalar(value, f"{path}.{key.value}", *parsers[key.value])
        for key, value in reader.pairs(node, f"{path}.", parsers)
    }
    if ("dns" in values) == ("kubernetes" in values) or ("dns" in values and len(values) > 1):
        problem = f"has {', '.join(values)}" if values else "is empty"
        reader.problem(
            node, path, f"{problem}; allowed: {_LIST}, and with kubernetes: {', '.join(_KUBERNETES_KEYS[1:])}"
        )
        return None
    if any(value is None for value in values.values()):
        return None
    if "dns" in values:
        return KproxySelection(dns=values["dns"])
    return KproxySelection(labels=values.pop("kubernetes"), **values)


def parse_kproxy_address(text: str) -> str:
    """Return the canonical form of an admin address. Raises ValueError."""
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
