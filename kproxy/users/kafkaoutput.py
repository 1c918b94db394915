"""SCRAM verifiers in what Kafka's and ZooKeeper's own tools print: each line on its own, and all others ignored. Pure.

A cluster with ZooKeeper keeps them at `/config/users/NAME`, beside the quotas of that user. These print them:

    kafka-configs --zookeeper ZK --describe --entity-type users    Configs for user-principal 'alice' are SCRAM-…
    zookeeper-shell ZK get /config/users/alice                     {"version":1,"config":{"SCRAM-SHA-256":"salt=…"}}

The second does not name the user: the last line before it with `/config/users/NAME` does, or the caller. NAME is
encoded there as in a URL (`Sanitizer` in Kafka). A cluster with KRaft keeps them in its metadata log (KIP-631):

    kafka-dump-log --cluster-metadata-decoder --files LOG           … payload: {"type":"USER_SCRAM_CREDENTIAL_RECORD",…}

Later records count, also those that remove a verifier; those of an aborted transaction (KIP-868) do not.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import unquote

from kproxy.base.printable import one_line
from kproxy.users.document import name_problem
from kproxy.users.verifier import HASHES, ScramVerifier

# A record of one user has some hundred bytes; other records may be longer.
_LONGEST_LINE = 1024 * 1024
_MOST_USERS = 100_000
# `ScramMechanism` in Kafka.
_MECHANISM_NUMBERS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_CONFIGS = re.compile(r"Configs for user-principal '(?P<name>.*)' are (?P<configs>.*)")
_NO_KEYS = re.compile(r"SCRAM credential configs for user-principal '.*' are SCRAM-")
_SCRAM = re.compile(r"(?<![^,])(SCRAM-[A-Z0-9-]+)=((?:(?:salt|stored_key|server_key|iterations)=[^,]*(?:,|$)){1,4})")
_NODE = re.compile(r"/config/users/([^\s/\])\"']*)(/?)")
_OTHER_PATHS = ("Node does not exist", "WatchedEvent")
_RECORD = re.compile(r'\{"type":"((?:REMOVE_)?USER_SCRAM_CREDENTIAL|(?:BEGIN|END|ABORT)_TRANSACTION)_')


@dataclass(slots=True)
class ScramImport:
    """What was read so far.

    `without` has the users of whom only other settings, such as quotas, were read; `problems` why verifiers were left
    out, each with the name of its user; `removed` the users whose last verifier was removed.
    """

    users: dict[str, dict[str, ScramVerifier]] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    without: set[str] = field(default_factory=set)
    problems: list[tuple[str, str]] = field(default_factory=list)
    has_described_only: bool = False
    """True if the text is that of `kafka-configs --bootstrap-server`, which prints no keys."""

    def put(self, name: str, mechanism: str, make: Callable[[], ScramVerifier]) -> None:
        """Note a verifier, or why it is none: then an earlier one of this user does not count either."""
        self.users.get(name, {}).pop(mechanism, None)
        self.removed.discard(name)
        try:
            if problem := name_problem(name):
                raise ValueError(problem)
            if mechanism not in HASHES:
                raise ValueError("is of a mechanism that Kafka does not have")
            if len(self.users) >= _MOST_USERS:
                raise ValueError(f"is of more than {_MOST_USERS} users")
            verifier = make()
        except (KeyError, TypeError, ValueError) as error:
            text = str(error) if type(error) is ValueError else "has fields that are missing, or are not base64"
            self.problems.append((one_line(name, 100), f"its verifier of {one_line(mechanism, 30)} {text}"))
            return
        self.users.setdefault(name, {})[mechanism] = verifier

    def remove(self, name: str, mechanism: str) -> None:
        """Note that a verifier was removed."""
        verifiers = self.users.get(name, {})
        verifiers.pop(mechanism, None)
        if not verifiers:
            self.removed.add(name)


class ScramReader:
    """Reads the lines of one source after the other into `result`."""

    def __init__(self, name: str | None = None) -> None:
        """Make a reader. `name` is the user of a node of ZooKeeper whose path is not in the text."""
        self.result = ScramImport()
        self._given = name
        self._node: str | None = None  # the user of the last path
        self._transaction: list[str] | None = None  # the records since its begin

    def read(self, lines: Iterable[str]) -> None:
        """Read the lines of one source."""
        self._node = None  # a transaction may reach into the next segment of the log
        for line in lines:
            if len(line) <= _LONGEST_LINE:
                self._read_line(line.strip())
        self.result.users = {name: verifiers for name, verifiers in self.result.users.items() if verifiers}
        self.result.without -= self.result.users.keys()

    def _read_line(self, line: str) -> None:
        if record := _RECORD.search(line):
            self._read_record(record[1], line[record.start() :])
        elif configs := _CONFIGS.search(line):
            self._read_configs(configs["name"], configs["configs"])
        elif _NO_KEYS.search(line):
            self.result.has_described_only = True
        elif "/config/users" in line:
            node = _NODE.search(line)
            # A path below a user's is that of the quotas of the user's clients. Others are of no node that follows.
            other = node is None or node[2] or line.startswith(_OTHER_PATHS)
            self._node = None if node is None or other else unquote(node[1], errors="replace")
        elif line.startswith("{"):
            self._read_node(line)

    def _read_configs(self, name: str, configs: str) -> None:
        if "', client-id " in name or "', default client-id" in name or "', the default client-id" in name:
            return
        verifiers = _SCRAM.findall(configs)
        for mechanism, text in verifiers:
            self.result.put(name, mechanism, partial(ScramVerifier.parse, mechanism, text.rstrip(",")))
        if not verifiers:
            self.result.without.add(name)

    def _read_node(self, line: str) -> None:
        node = _object(line)
        configs = node.get("config") if isinstance(node, dict) else None
        if not isinstance(configs, dict) or "version" not in node:
            return
        name = self._given if self._node is None else self._node
        self._node = None
        verifiers = {
            key: value for key, value in configs.items() if key.startswith("SCRAM-") and isinstance(value, str)
        }
        if name is None:
            if verifiers:
                self.result.problems.append(("", "no line says whose node this is: give --user, or the path above it"))
            return
        for mechanism, text in verifiers.items():
            self.result.put(name, mechanism, partial(ScramVerifier.parse, mechanism, text))
        if not verifiers and name != "<default>":
            self.result.without.add(name)

    def _read_record(self, kind: str, text: str) -> None:
        if kind == "BEGIN_TRANSACTION":
            self._transaction = []
        elif kind == "ABORT_TRANSACTION":
            self._transaction = None
        elif kind == "END_TRANSACTION":
            records, self._transaction = self._transaction or [], None
            for record in records:
                self._apply(record)
        elif self._transaction is not None:
            self._transaction.append(text)
        else:
            self._apply(text)

    def _apply(self, text: str) -> None:
        record = _object(text)
        data = record.get("data")
        name = data.get("name") if isinstance(data, dict) else None
        if not isinstance(data, dict) or not isinstance(name, str):
            self.result.problems.append(("", "a record of a SCRAM credential cannot be read"))
            return
        number = data.get("mechanism")
        mechanism = _MECHANISM_NUMBERS.get(number, "") if isinstance(number, int) else ""
        if record["type"].startswith("REMOVE"):
            self.result.remove(name, mechanism)
            return

        def make() -> ScramVerifier:
            keys = ("salt", "storedKey", "serverKey")
            salt, stored, server = (base64.b64decode(data[key], validate=True) for key in keys)
            iterations = data["iterations"]
            if not isinstance(iterations, int):
                raise ValueError("has iterations that are no number")
            return ScramVerifier(mechanism, salt, iterations, stored, server)

        self.result.put(name, mechanism or f"mechanism {number}", make)


def _object(text: str) -> dict[str, Any]:
    """Return the JSON object that a text begins with; an empty one if there is none."""
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
