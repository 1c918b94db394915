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


# The kind of a file in which all these expressions match; the first kind counts.
_CONTENTS: tuple[tuple[FileKind, str, str], ...] = (
    (FileKind.KUBERNETES, "^apiVersion:", "^kind:"),
    (FileKind.COMPOSE, r"""^["']?services["']?[ ]*:|\A\s*\{""", ""),
    (FileKind.SPARK, r"^[ \t]*spark\.\S", ""),
    (
        FileKind.SERVER,
        r"^[ \t]*(listeners|advertised\.listeners|process\.roles|broker\.id|node\.id|zookeeper\.connect|log\.dirs?"
        r"|listener\.security\.protocol\.map|inter\.broker\.listener\.name|controller\.quorum\.voters"
        r"|advertised\.(?:host\.name|port))[ \t]*[=: ]",
        "",
    ),
    (FileKind.CONNECT, r"^[ \t]*key\.converter", ""),
    (
        FileKind.CLIENT,
        r"^[ \t]*(bootstrap\.servers|metadata\.broker\.list|security\.protocol|sasl\.(?:jaas|mechanism)|ssl\.)",
        "",
    ),
)
# For a file whose content does not show its kind.
_NAMES = (
    (FileKind.COMPOSE, r"(docker-)?compose[\w.-]*\.ya?ml"),
    (FileKind.SERVER, r".*(server|broker).*\.(properties|conf)"),
    (FileKind.CLIENT, r".*client.*\.(properties|conf)"),
)


def recognise_kind(source: SourceFile) -> FileKind | None:
    """Return the kind of a file; None if kproxy does not know it."""
    text = source.text.removeprefix(BOM)
    for kind, *signs in _CONTENTS:
        if all(re.search(sign, text, re.MULTILINE) for sign in signs):
            return kind
    filename = re.split(r"[/\\]", source.name)[-1].lower()
    return next((kind for kind, name in _NAMES if re.fullmatch(name, filename, re.DOTALL)), None)
