"""The contents of a registry: subjects with all their versions, also deleted ones, compatibility and modes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kproxy.base.printable import one_line
from kproxy.migrate.schemas.registry import RegistryClient, RegistryError
from kproxy.migrate.schemas.schema import (
    DEFAULT_CONTEXT,
    NotASchema,
    Schema,
    SchemaVersion,
    parse_config,
    parse_mode,
    parse_number,
    parse_schema,
    qualified,
)

T = TypeVar("T")

# Subjects asked for at the same time.
_THREADS = 8
# The most versions, and characters of all schemas together, that are kept.
_MOST_VERSIONS, _MOST_TEXT = 500_000, 512 * 1024 * 1024
_ALL = {"deleted": "true"}
_LONGEST_NAME = 1000


@dataclass(frozen=True, slots=True)
class SubjectEntry:
    """A subject: its versions in order, its own compatibility configuration and its own mode."""

    name: str
    versions: tuple[SchemaVersion, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    """{} if those of the registry apply."""
    mode: str = ""
    """"" if that of the registry applies."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """The contents of a registry, of the subjects that were asked for."""

    subjects: Mapping[str, SubjectEntry]
    all_subjects: frozenset[str]
    """The names of all subjects of the registry."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """The compatibility configuration of the registry."""
    mode: str = ""

    def versions(self) -> Iterator[SchemaVersion]:
        """Yield all versions, by subject and in order."""
        for name in sorted(self.subjects):
            yield from self.subjects[name].versions


class CatalogReader:
    """Reads a registry, several times if it must: the schema of a version that was read before is not read again."""

    def __init__(self, client: RegistryClient) -> None:
        self._client = client
        self._known: dict[tuple[str, int], tuple[int, Schema]] = {}
        self._text = 0

    def read(self, is_selected: Callable[[str], bool], names: Iterable[str] = ()) -> Catalog:
        """Return the subjects that are selected, and those with these names, which perhaps do not exist."""
        existing = frozenset(self._list_subjects())
        selected = sorted({*names, *filter(is_selected, existing)})
        return Catalog(
            {entry.name: entry for entry in each(self._read_subject, selected)},
            existing,
            self._parsed(parse_config, self._client.find("config")),
            self._parsed(parse_mode, self._client.find("mode")),
        )

    def forget(self, versions: Iterable[tuple[str, int]]) -> None:
        """Read these versions anew the next time."""
        for key in versions:
            self._known.pop(key, None)

    def _list_subjects(self) -> Iterator[str]:
        """Yield the subjects of all contexts: registries before contexts have no others, and need no prefix."""
        yield from self._names("its list of subjects is none", self._client.get("subjects", **_ALL))
        for context in self._names("its list of contexts is none", self._client.find("contexts")):
            if context != DEFAULT_CONTEXT:
                subjects = self._client.get("subjects", subjectPrefix=qualified(context, ""), **_ALL)
                yield from self._names("its list of subjects is none", subjects)

    def _names(self, problem: str, value: object) -> list[str]:
        """Return the names in a reply; some registries write null for none."""
        value = [] if value is None else value
        if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
            raise self._nonsense(problem)
        if any(len(name) > _LONGEST_NAME for name in value):
            raise self._nonsense(f"a name has more than {_LONGEST_NAME} characters")
        return value

    def _read_subject(self, name: str) -> SubjectEntry:
        numbers = self._list_versions(name, _ALL)
        living = self._list_versions(name, {})
        versions = [self._read_version(name, number, number not in living) for number in sorted(numbers | living)]
        return SubjectEntry(
            name,
            tuple(version for version in versions if version is not None),
            self._parsed(parse_config, self._client.find("config", name)),
            self._parsed(parse_mode, self._client.find("mode", name)),
        )

    def _list_versions(self, name: str, query: Mapping[str, str]) -> set[int]:
        value = self._client.find("subjects", name, "versions", **query)
        if value is None:
            return set()
        if not isinstance(value, list):
            raise self._nonsense(f"its list of versions of {one_line(name, 100)} is none")
        return {self._parsed(parse_number, number) for number in value}

    def _read_version(self, name: str, number: int, deleted: bool) -> SchemaVersion | None:
        """Return a version; None if it was deleted for good meanwhile."""
        if (name, number) not in self._known:
            value = self._client.find("subjects", name, "versions", number, **_ALL)
            if value is None:
                return None
            schema = self._parsed(lambda reply: parse_schema(reply, name), value)
            self._text += len(schema.text)
            if self._text > _MOST_TEXT or len(self._known) >= _MOST_VERSIONS:
                raise RegistryError(
                    f"{self._client.name} has more than {_MOST_VERSIONS:,} versions or {_MOST_TEXT >> 20} MiB of"
                    " schemas: copy some of the subjects at a time (schemas.include)"
                )
            self._known[name, number] = self._parsed(parse_number, value.get("id")), schema
        id, schema = self._known[name, number]
        return SchemaVersion(name, number, id, schema, deleted)

    def _parsed(self, parse: Callable[[Any], T], value: object) -> T:
        try:
            return parse(value)
        except NotASchema as error:
            raise self._nonsense(f"a reply {error}") from None

    def _nonsense(self, what: str) -> RegistryError:
        return RegistryError(f"{self._client.name} is no schema registry: {what}")


def find_by_id(client: RegistryClient, context: str, id: int) -> Schema | None:
    """Return the schema that has an id in a context; None if there is none."""
    value = client.find("schemas", "ids", id, subject=qualified(context, ""))
    return _found_schema(client, f"id {id}", value, qualified(context, ""))


def _found_schema(client: RegistryClient, what: str, value: object, subject: str = "") -> Schema | None:
    try:
        return None if value is None else parse_schema(value, subject)
    except NotASchema as error:
        raise RegistryError(f"{client.name} is no schema registry: the reply for {what} {error}") from None


def find_by_guid(client: RegistryClient, guid: str) -> Schema | None:
    """Return the schema that has a GUID, in any context; None if there is none."""
    return _found_schema(client, f"GUID {guid}", client.find("schemas", "guids", guid))


def name_by_id(client: RegistryClient, context: str, id: int) -> str:
    """Return a subject and version that has an id in a context, for people."""
    match client.find("schemas", "ids", id, "versions", subject=qualified(context, "")):
        case [{"subject": str(subject), "version": int(version)}, *_]:
            return f"{one_line(subject, 200)} version {version}"
    return "a schema without a subject"


def each(ask: Callable[[T], Any], values: Collection[T]) -> Iterator[Any]:
    """Yield the result of `ask` for each value, several at the same time. Raises the first error."""
    with ThreadPoolExecutor(_THREADS, "kproxy schemas") as pool:
        futures = [pool.submit(ask, value) for value in values]
        try:
            for future in futures:
                yield future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
