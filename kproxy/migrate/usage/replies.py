"""The record of one kproxy, as its page /observation has it, validated strictly (pure): the peer may be any program.

docs/admin.md describes the lines.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kproxy.base.errors import AdminError

_LONGEST_NAME, _MOST_NAMES = 300, 100_000
_LONGEST_CLIENT_NAME = 1000
ADMIN, GROUPS, READS, TRANSACTIONS, WRITES = "admin", "groups", "reads", "transactions", "writes"
_USES = (ADMIN, GROUPS, READS, TRANSACTIONS, WRITES)


@dataclass(frozen=True, slots=True)
class RecordedClient:
    """What one client used. The values of mappings are the Unix times of the last use."""

    upstream: str
    user: str
    address: str
    client_id: str
    software: str
    first: float
    last: float
    uses: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """By kind of use and name; a topic that is named by its id is `id:` and the id."""
    transactions: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    """By transactional id, kind of use (`writes`: a topic, `groups`) and name."""
    broker_user: str = ""
    """The user name in a login that passed to the broker."""

    @property
    def identity(self) -> tuple[str, str, str, str, str]:
        return self.user, self.broker_user, self.address, self.client_id, self.software

    @property
    def named_user(self) -> str:
        """The user, wherever the client logs in; "" if it does not, or if its login shows no name."""
        return self.user or self.broker_user

    @property
    def label(self) -> str:
        """The client for people."""
        user = f"user {self.named_user}, " if self.named_user else ""
        return f"{user}{self.client_id or '(no client id)'} at {self.address}"

    def names(self, use: str) -> frozenset[str]:
        """Return the names that it used so."""
        return frozenset(name for kind, name in self.uses if kind == use)

    def merged(self, other: RecordedClient) -> RecordedClient:
        """Return what this client used at this kproxy and at another one."""
        return replace(
            self,
            first=min(self.first, other.first),
            last=max(self.last, other.last),
            uses=_latest(self.uses, other.uses),
            transactions=_latest(self.transactions, other.transactions),
        )

    def with_names(self, names: Mapping[str, str]) -> RecordedClient:
        """Return the same with the names of topics in place of their ids."""
        if not any(name.startswith(_ID) for _, name in self.uses):
            return self
        return replace(
            self,
            uses=_latest({(use, _named(name, names)): last for (use, name), last in self.uses.items()}, {}),
            transactions={
                (transaction, use, _named(name, names)): last
                for (transaction, use, name), last in self.transactions.items()
            },
        )

    def to_json(self) -> dict[str, Any]:
        """Return the client as `read` takes it."""
        return {
            "upstream": self.upstream,
            "user": self.user,
            "broker_user": self.broker_user,
            "address": self.address,
            "client_id": self.client_id,
            "software": self.software,
            "first": self.first,
            "last": self.last,
            "uses": [
                *({"use": use, "name": name, "last": last} for (use, name), last in self.uses.items()),
                *(
                    {"use": use, "transaction": transaction, "name": name, "last": last}
                    for (transaction, use, name), last in self.transactions.items()
                ),
            ],
        }

    @classmethod
    def read(cls, value: object) -> RecordedClient:
        """Read a client of a line or of a file. Raises KeyError, TypeError and ValueError."""
        fields = _mapping(value)
        uses: dict[tuple[str, str], float] = {}
        transactions: dict[tuple[str, str, str], float] = {}
        for item in _list(fields["uses"]):
            used = _mapping(item)
            use, name, last = _text(used["use"]), _name(used), _number(used["last"])
            if use not in _USES:
                continue  # of a later version
            if "transaction" in used:
                transactions[_text(used["transaction"]), use, name] = last
            else:
                uses[use, name] = last
        upstream, user, address, client_id, software = (
            _text(fields[key], _LONGEST_CLIENT_NAME) for key in ("upstream", "user", "address", "client_id", "software")
        )
        broker_user = _text(fields.get("broker_user", ""), _LONGEST_CLIENT_NAME)  # older files have none
        first, last = _number(fields["first"]), _number(fields["last"])
        return cls(upstream, user, address, client_id, software, first, last, uses, transactions, broker_user)


@dataclass(frozen=True, slots=True)
class RecordedProducer:
    """The highest epoch of a producer id, and the offsets that its batches take."""

    epoch: int
    offsets: int

    def plus(self, other: RecordedProducer, sign: int = 1) -> RecordedProducer:
        """Return what both have written; with sign -1, what this one has written since."""
        return RecordedProducer(max(self.epoch, other.epoch), self.offsets + sign * other.offsets)


@dataclass(frozen=True, slots=True)
class RecordedPartition:
    """What was written to one partition through kproxies."""

    upstream: str
    topic: str
    partition: int
    offsets: int
    unsized: int
    """Batches of which the number of offsets is unknown."""
    last: float
    producers: Mapping[int, RecordedProducer] = field(default_factory=dict)
    """By producer id; -1 stands for producers without one."""

    def plus(self, other: RecordedPartition, sign: int = 1) -> RecordedPartition:
        """Return what was written through this kproxy and another one; with sign -1, since an earlier record."""
        none = RecordedProducer(-1, 0)
        return replace(
            self,
            offsets=self.offsets + sign * other.offsets,
            unsized=self.unsized + sign * other.unsized,
            last=max(self.last, other.last),
            producers={
                producer: self.producers.get(producer, none).plus(other.producers.get(producer, none), sign)
                for producer in {*self.producers, *other.producers}
            },
        )

    def with_names(self, names: Mapping[str, str]) -> RecordedPartition:
        """Return the same with the name of the topic in place of its id."""
        return replace(self, topic=_named(self.topic, names))

    def to_json(self) -> dict[str, Any]:
        """Return the partition as `read` takes it."""
        return {
            "upstream": self.upstream,
            "name": self.topic,
            "partition": self.partition,
            "offsets": self.offsets,
            "unsized": self.unsized,
            "last": self.last,
            "producers": [
                {"id": number, "epoch": producer.epoch, "offsets": producer.offsets}
                for number, producer in self.producers.items()
            ],
        }

    @classmethod
    def read(cls, value: object) -> RecordedPartition:
        """Read a partition of a line or of a file. Raises as `RecordedClient.read`."""
        fields = _mapping(value)
        producers = [_mapping(producer) for producer in _list(fields["producers"])]
        return cls(
            _text(fields["upstream"]),
            _name(fields),
            int(_number(fields["partition"])),
            int(_number(fields["offsets"])),
            int(_number(fields["unsized"])),
            _number(fields["last"]),
            {
                int(_number(producer["id"])): RecordedProducer(
                    int(_number(producer["epoch"])), int(_number(producer["offsets"]))
                )
                for producer in producers
            },
        )


@dataclass(frozen=True, slots=True)
class KproxyRecord:
    """The record of one kproxy about one cluster.

    `id` is that of the record, and of no other one, even of the same kproxy; "" if kproxy observes nothing. `since` is
    the Unix time at which the record began.
    """

    id: str = ""
    since: float = 0.0
    clients: tuple[RecordedClient, ...] = ()
    partitions: tuple[RecordedPartition, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, lines: Iterable[Mapping[str, Any]], cluster: str, sender: str) -> KproxyRecord:
        """Read the lines of the page, of this cluster only. Raises AdminError."""
        try:
            return cls._read(list(lines), cluster)
        except (IndexError, KeyError, TypeError, ValueError):
            raise AdminError(
                f"{sender} returned no valid record at /observation; is the version of kproxy the same everywhere?"
            ) from None

    @classmethod
    def _read(cls, lines: list[Mapping[str, Any]], cluster: str) -> KproxyRecord:
        head = _mapping(lines[0]["observation"])
        clients: dict[tuple[str, ...], RecordedClient] = {}
        partitions: dict[tuple[str, str, int], RecordedPartition] = {}
        for line in lines[1:]:
            fields = _mapping(line.get("client") or line.get("partition"))
            if fields["cluster"] != cluster:
                continue
            if "client" in line:
                client = RecordedClient.read(fields)
                key = (client.upstream, *client.identity)
                clients[key] = clients[key].merged(client) if key in clients else client
            else:
                part = RecordedPartition.read(fields)
                place = part.upstream, part.topic, part.partition
                if place in partitions:  # a line with more producers of the same partition
                    part = replace(part, producers={**partitions[place].producers, **part.producers})
                partitions[place] = part
        left_out = {_text(kind): int(_number(count)) for kind, count in _mapping(head["left_out"]).items()}
        if head["record"] is None:
            return cls()
        return cls(
            _text(head["record"]), _number(head["since"]), tuple(clients.values()), tuple(partitions.values()), left_out
        )

    def minus(self, earlier: KproxyRecord) -> KproxyRecord:
        """Return the record without what an earlier one of the same kproxy counted as written."""
        before = {(part.upstream, part.topic, part.partition): part for part in earlier.partitions}
        partitions = (
            part.plus(before[key], -1) if (key := (part.upstream, part.topic, part.partition)) in before else part
            for part in self.partitions
        )
        return replace(self, partitions=tuple(partitions))


_ID = "id:"


def _name(fields: Mapping[str, Any]) -> str:
    """Return the name in a use or a partition."""
    if "topic_id" in fields:
        text = _text(fields["topic_id"])
        if len(base64.urlsafe_b64decode(text + "==")) != 16:
            raise ValueError
        return f"{_ID}{text}"
    return _text(fields["topic"] if "topic" in fields else fields["name"])


def _named(name: str, names: Mapping[str, str]) -> str:
    return names.get(name.removeprefix(_ID), name) if name.startswith(_ID) else name


def _latest(*uses: Mapping[Any, float]) -> dict[Any, float]:
    latest: dict[Any, float] = {}
    for each in uses:
        for name, last in each.items():
            latest[name] = max(last, latest.get(name, last))
    return latest


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError
    return value


def _list(value: object) -> list[Any]:
    if not isinstance(value, list) or len(value) > _MOST_NAMES:
        raise TypeError
    return value


def _text(value: object, longest: int = _LONGEST_NAME) -> str:
    if not isinstance(value, str) or len(value) > longest:
        raise TypeError
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e19 < value < 1e19:
        raise TypeError
    return float(value) if isinstance(value, float) else value
