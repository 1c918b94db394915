"""A printed fix of `kproxy doctor`, pasted into brokers' files as a person does it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

# What stands in the place of `…` where a file has no such line, as the doctor says; the controllers' name is Kafka's.
_DEFAULTS = {
    "listener.security.protocol.map": (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
    )
}
_WHOSE = re.compile(r"# (?:(broker \d+(?:, broker \d+)*)(?:,|:) )?(?:server\.properties|variables of|.*no whole lines)")


def by_broker(fix: Sequence[str], only: str = "broker 1") -> dict[str, dict[str, str]]:
    """Return the settings by the name of each broker; without names, those of the `only` broker."""
    brokers: dict[str, dict[str, str]] = {}
    names: list[str] = []
    for line in fix:
        whose = _WHOSE.match(line)
        if whose is not None:
            names = (whose[1] or only).split(", ")
        elif not line.startswith(("# ", "bootstrap.servers=")):
            key, _, value = line.partition("=")
            for name in names:
                assert key not in brokers.setdefault(name, {}), f"{name} is told {key} twice"
                brokers[name][key] = value
    return brokers


def pasted(file: Mapping[str, str], lines: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a file with the printed lines in place of those with the same names.

    The file's own value, or else Kafka's default, replaces `…`.
    """
    there = {**_DEFAULTS, **file}
    return {**file, **{key: value.replace("…", there[key]) if "…" in value else value for key, value in lines.items()}}


def bootstrap(fix: Sequence[str], before: str) -> str:
    """Return the bootstrap servers that the fix gives the client; those of `before` if it gives none."""
    told = [line.partition("=")[2] for line in fix if line.startswith("bootstrap.servers=")]
    return told[-1] if told else before
