"""tshark, Wireshark without its window, as a reader of captures."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

needs_tshark = pytest.mark.skipif(
    shutil.which("tshark") is None, reason="tshark is not installed: apt-get install tshark"
)

_FIELDS = ("_ws.col.Info", "_ws.expert.severity", "_ws.expert.message", "frame.comment")
_WARNING = 0x600000
# Of versions with sizes of four bytes, Wireshark 4.0 reads two where bytes stand: with these it complains of frames as
# they were, too.
_MISREAD = {"SaslAuthenticate": 1, "JoinGroup": 5, "SyncGroup": 3, "DescribeGroups": 4}


@dataclass(frozen=True, slots=True)
class Dissected:
    """A packet as Wireshark decodes it. `api` and `version` are "" and -1 if it has no frame of Kafka's."""

    api: str
    version: int
    kind: str
    complaints: tuple[str, ...]
    comment: str

    @property
    def known(self) -> bool:
        """Return whether this Wireshark supports the API in this version."""
        return not any("Unsupported" in one or "Unknown" in one for one in self.complaints)

    @property
    def misread(self) -> bool:
        """Return whether it decodes frames of this API and version wrongly, whatever is in them."""
        return self.version <= _MISREAD.get(self.api, -1)


def dissect(file: Path, ports: range) -> list[Dissected]:
    """Return the packets of a capture, with Kafka at these ports."""
    decode = f"tcp.port=={ports.start}-{ports.stop - 1},kafka"
    done = subprocess.run(
        ["tshark", "-r", str(file), "-d", decode, "-T", "fields", "-E", "separator=/t", "-E", "aggregator=|"]
        + [word for field in _FIELDS for word in ("-e", field)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [_packet(line) for line in done.stdout.splitlines()]


def _packet(line: str) -> Dissected:
    info, severities, messages, comment = (line.split("\t") + [""] * 3)[:4]
    levels = [int(one) for one in severities.split("|") if one]
    said = messages.split("|")
    complaints = said if any(level >= _WARNING for level in levels) else []
    words = info.split()
    if words[:1] != ["Kafka"] or len(words) < 4 or not words[2].startswith("v"):
        return Dissected("", -1, "", tuple(complaints), comment)
    return Dissected(words[1], int(words[2][1:]), words[3].partition("[")[0], tuple(complaints), comment)
