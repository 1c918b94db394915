"""Files with which systemd and launchd start a profile's kproxy.

systemd.service(5), systemd.unit(5); launchd.plist(5).
"""

from __future__ import annotations

import plistlib
import sys
from collections.abc import Sequence
from pathlib import Path

from kproxy.cli.profiles import paths


def systemd(name: str, words: Sequence[str]) -> tuple[Path, bytes, str]:
    """Return the unit of this user for `kproxy run` with these words: its path, its contents, and how to use it."""
    unit = f"kproxy-{name}.service"
    command = " ".join(_quoted(word) for word in (sys.executable, "-m", "kproxy", "run", *words))
    text = f"""[Unit]
Description=kproxy @{name}

[Service]
ExecStart={command}
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=5

[Install]
WantedBy=default.target
"""
    use = f"systemctl --user daemon-reload && systemctl --user enable --now {unit}"
    return paths.units_directory() / unit, text.encode(), use


def launchd(name: str, words: Sequence[str]) -> tuple[Path, bytes, str]:
    """Return the same for launchd on macOS."""
    label = f"kproxy.{name}"
    log = str(paths.profile_directory(name) / "log")
    content = {
        "Label": label,
        "ProgramArguments": [sys.executable, "-m", "kproxy", "run", *words],
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "StandardOutPath": log,
        "StandardErrorPath": log,
    }
    file = Path("~/Library/LaunchAgents").expanduser() / f"{label}.plist"
    return file, plistlib.dumps(content), f"launchctl bootstrap gui/$(id -u) '{file}'"


def _quoted(word: str) -> str:
    """Return a word as systemd reads it: % and $ are its own, and so are quotes and backslashes."""
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{text}"'
