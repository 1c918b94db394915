"""The kinds of files, recognised by their content or chosen by the user."""

from __future__ import annotations

import re
from enum import Enum

from kproxy.advice.lint.source import BOM, SourceFile


class FileKind(Enum):
    """The kind of a file; the values are those of `--as`."""

    SERVER = "server"
    CLIENT = "client"
    CONNECT = "connect"
    SPARK = "spark"
    COMPOSE = "compose"
    KUBERNETES = "kubernetes"  # Strimzi's or CFK's resources


_LISTENING = re.compile(
    r"^[ \t]*(listeners|advertised\.listeners|process\.roles|broker\.id|node\.id|zookeeper\.connect|log\.dirs?"
    r"|listener\.security\.protocol\.map|inter\.broker\.listener\.name|controller\.quorum\.voters"
    r"|advertised\.(?:host\.name|port))[ \t]*[=: ]",
    re.MULTILINE,
)
_CONNECT = re.compile(r"^[ \t]*(key\.converter|group\.id|plugin\.path|(?:config|offset|status)\.storage)", re.MULTILINE)
_CLIENT = re.compile(
    r"^[ \t]*(bootstrap\.servers|metadata\.broker\.list|security\.protocol|sasl\.(?:jaas|mechanism)|ssl\.)",
    re.MULTILINE,
)


def recognise_kind(source: SourceFile) -> FileKind | None:
    """Return the kind of a file; None if kproxy does not know it."""
    text = source.text.removeprefix(BOM)
    if re.search(r"^apiVersion:", text, re.MULTILINE) and re.search(r"^kind:", text, re.MULTILINE):
        return FileKind.KUBERNETES
    if re.search(r"""^["']?services["']?[ ]*:""", text, re.MULTILINE) or re.match(r"\s*\{", text):
        return FileKind.COMPOSE
    if re.search(r"^[ \t]*spark\.\S", text, re.MULTILINE):
        return FileKind.SPARK
    if _LISTENING.search(text):
        return FileKind.SERVER
    if re.search(r"^[ \t]*key\.converter", text, re.MULTILINE) and _CONNECT.search(text):
        return FileKind.CONNECT
    if _CLIENT.search(text):
        return FileKind.CLIENT
    return _by_name(source.name)


def _by_name(name: str) -> FileKind | None:
    """Return the kind that a file's name suggests, for a file whose content does not show it."""
    filename = re.split(r"[/\\]", name)[-1].lower()
    if re.fullmatch(r"(docker-)?compose[\w.-]*\.ya?ml", filename):
        return FileKind.COMPOSE
    if filename.endswith((".properties", ".conf")):
        for word, kind in (("server", FileKind.SERVER), ("broker", FileKind.SERVER), ("client", FileKind.CLIENT)):
            if word in filename:
                return kind
    return None
