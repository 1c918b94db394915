"""The topics whose records need a schema registry, and whether both registries have their schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from uuid import UUID

from kproxy.base.diagnostic import ERROR, NOTE, WARNING, Diagnostic, Severity
from kproxy.base.format import abbreviate, format_count
from kproxy.base.messages.schemas import SCHEMA_MISSING
from kproxy.migrate.schemas.catalog import each, find_by_guid, find_by_id
from kproxy.migrate.schemas.comparison import REGISTRY
from kproxy.migrate.schemas.recordids import MAX_IDS, Part, PartSample, SchemaId
from kproxy.migrate.schemas.registry import RegistryClient, RegistryError
from kproxy.migrate.schemas.sampling import ClusterSample, sample_topics
from kproxy.migrate.schemas.schema import DEFAULT_CONTEXT, Schema
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.spec.schemas_section import SchemasSection

# How long topics are sampled, in seconds.
PLAN_SECONDS, PREFLIGHT_SECONDS = 15.0, 5.0
# Ids that a line names.
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class _Direction:
    """A direction in which clients go from one registry to the other, and the severities of findings about it."""

    origin: str
    destination: str
    option: str
    missing: Severity
    """The severity of a schema that only the first registry has."""
    other: Severity
    """The severity of an id that means something else, and of a registry that does not answer."""


_PLAN = _Direction("source", "target", "", WARNING, ERROR)
_SWITCH = _Direction("source", "target", "", ERROR, ERROR)
# Nothing about schemas may stop an operator who must go back.
_ROLLBACK = _Direction("target", "source", " --reverse", WARNING, WARNING)


def check_planned_schemas(migration: Migration, source: str, partitions: Mapping[str, int]) -> list[Diagnostic]:
    """Return what a plan says about schemas; `partitions`: the number of partitions of each topic that is copied."""
    sample = sample_topics(source, partitions, PLAN_SECONDS)
    return list(_check(migration.schemas, sample, _PLAN))


def check_schemas_in_use(
    migration: Migration, origin: str, partitions: Mapping[str, int], *, back: bool = False
) -> list[Diagnostic]:
    """Return whether the registry to which clients go has the schemas of the last records, before a switch.

    `back`: before a rollback, whose `migration` is the reverse one. Without a section `schemas` there is nothing to
    compare.
    """
    if migration.schemas is None:
        return []
    sample = sample_topics(origin, partitions, PREFLIGHT_SECONDS, only_last=True)
    return list(_check(migration.schemas, sample, _ROLLBACK if back else _SWITCH))


def _check(section: SchemasSection | None, sample: ClusterSample, direction: _Direction) -> Iterator[Diagnostic]:
    """Yield the findings of a sample."""
    for topic, reason in sample.unread.items():
        yield Diagnostic(NOTE, f"topic {topic}", f"was not sampled for schema ids: {reason}")
    for topic, records in sample.topics.items():
        if records.is_registry:
            yield Diagnostic(WARNING, f"topic {topic}", _REGISTRY_TOPIC.format(topic=topic))
    parts = [(topic, name, part) for topic, records in sample.topics.items() for name, part in records.parts()]
    if not parts:
        return
    if section is None:
        for topic, name, part in parts:
            yield Diagnostic(WARNING, f"topic {topic}", f"{_beginning(name, part)}: {_NEEDS_REGISTRY}")
        return
    try:
        schemas = _look_up(section, {id for _, _, part in parts for id in part.ids})
    except RegistryError as error:
        yield Diagnostic(direction.other, REGISTRY, f"schemas in use cannot be compared: {error}")
        return
    for topic, name, part in parts:
        yield from _check_part(topic, name, part, schemas, direction)


# The topic in which a registry keeps its schemas.
_REGISTRY_TOPIC = (
    "is the topic of a schema registry. A copy has the same ids, but a running registry of the target cannot use it:"
    " it would add its own records; and Confluent's refuses to start with it until kproxy migrate finish, as the copy"
    " is not compacted before. Allowed: topics.exclude: [{topic}], and kproxy migrate schemas FILE"
)
_NEEDS_REGISTRY = (
    "their readers need a schema registry that knows these ids. If the target has another one, name both in the file"
    " (schemas: {source: URL, target: URL})"
)


@dataclass(frozen=True, slots=True)
class _Pair:
    """The schemas that both registries have for an id."""

    source: Schema | None
    target: Schema | None


def _look_up(section: SchemasSection, ids: set[SchemaId]) -> dict[SchemaId, _Pair]:
    """Return what both registries have for each id."""
    context = f".{section.context.removeprefix('.')}" if section.context else DEFAULT_CONTEXT
    with ExitStack() as stack:
        source = stack.enter_context(RegistryClient("source", section.source))
        target = stack.enter_context(RegistryClient("target", section.target))

        def look_up(id: SchemaId) -> _Pair:
            return _Pair(_find(source, DEFAULT_CONTEXT, id), _find(target, context, id))

        ordered = sorted(ids, key=str)
        return dict(zip(ordered, each(look_up, ordered), strict=True))


def _find(client: RegistryClient, context: str, id: SchemaId) -> Schema | None:
    return find_by_guid(client, str(id)) if isinstance(id, UUID) else find_by_id(client, context, id)


def _check_part(
    topic: str, name: Part, part: PartSample, schemas: Mapping[SchemaId, _Pair], direction: _Direction
) -> Iterator[Diagnostic]:
    subject, noun = f"topic {topic}", f"{name}s"

    def having(is_so: Callable[[_Pair], bool]) -> list[SchemaId]:
        return [id for id in part.ids if is_so(schemas[id])]

    unknown = having(lambda pair: pair.source is None)
    absent = having(lambda pair: pair.source is not None and pair.target is None)
    other = having(lambda pair: None not in (pair.source, pair.target) and not _is_same(pair))
    if len(unknown) == len(part.ids):
        registry = f"the {direction.origin}'s registry"
        text = f"{_beginning(name, part)}, and {registry} knows none of them: perhaps they are no ids, or"
        yield Diagnostic(WARNING, subject, f"{text} those of another registry or context")
        return
    if unknown:
        text = f"{noun} have schema ids that the {direction.origin}'s registry does not know: {_ids_text(unknown)}"
        yield Diagnostic(WARNING, subject, text)
    if absent:
        side, option = direction.destination, direction.option
        text = SCHEMA_MISSING(part=noun, side=side, ids=_ids_text(absent), option=option)
        yield Diagnostic(direction.missing, subject, text)
    if other:
        text = f"{noun} have schema ids that mean something else at the {direction.destination}: {_ids_text(other)}"
        yield Diagnostic(direction.other, subject, text)
    if not (unknown or absent or other):
        text = f"{noun} have schema ids ({_ids_text(list(part.ids))}); both registries have the same schemas for them"
        yield Diagnostic(NOTE, subject, text)


def _is_same(pair: _Pair) -> bool:
    return pair.source is not None and pair.target is not None and pair.source.means_same(pair.target)


def _beginning(name: Part, part: PartSample) -> str:
    """Describe a part for people: what was found looks like ids, and may be none."""
    where = "in a header" if part.in_headers else "in front"
    share = f"{part.in_headers or part.framed} of {format_count(part.count, 'sampled record')}"
    text = f"{name}s look as if they had schema ids {where} ({share}): {_ids_text(list(part.ids))}"
    return text


def _ids_text(ids: list[SchemaId]) -> str:
    more = "" if len(ids) < MAX_IDS else f" (and more than {MAX_IDS:,})"
    return abbreviate([str(id) for id in ids], _SHOWN) + more
