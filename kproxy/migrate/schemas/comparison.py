"""The differences of two registries: what the target lacks, and where both mean different things (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kproxy.base.diagnostic import ERROR, NOTE, WARNING, Diagnostic
from kproxy.base.messages.schemas import ID_MEANS_TWO_THINGS, VERSION_DIFFERS
from kproxy.migrate.schemas.catalog import Catalog, SubjectEntry
from kproxy.migrate.schemas.schema import SchemaVersion, move_to_context, subject_in

REGISTRY = "schema registry"


@dataclass(frozen=True, slots=True)
class RegistryDifference:
    """The changes that make the target's registry like the source's, by the target's names of subjects."""

    missing: tuple[SchemaVersion, ...] = ()
    """The versions to register, each after those to which it refers."""
    undeleted: tuple[SchemaVersion, ...] = ()
    """The versions to delete softly, each before those to which it refers."""
    extra: tuple[SchemaVersion, ...] = ()
    """The target's versions of the same subjects that the source does not have."""
    configs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By subject, the compatibility configuration to set; "" is the registry."""
    modes: Mapping[str, str] = field(default_factory=dict)
    """By subject, the mode to set; "" for none."""
    findings: tuple[Diagnostic, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.missing or self.undeleted or self.configs or self.modes)


def as_at_target(source: Catalog, context: str) -> dict[str, SubjectEntry]:
    """Return the subjects of the source by the names that they have at the target."""
    entries = {
        subject_in(name, context): replace(
            entry,
            name=subject_in(name, context),
            versions=tuple(move_to_context(version, context) for version in entry.versions),
        )
        for name, entry in source.subjects.items()
    }
    if context:  # what applies to a whole registry applies to the context there
        name = subject_in("", context)
        entries[name] = SubjectEntry(name, config=source.config)
    return entries


def compare_registries(
    wanted: Mapping[str, SubjectEntry], target: Catalog, source: Catalog, context: str = ""
) -> RegistryDifference:
    """Compare the subjects that are wanted at the target with those that it has."""
    findings: list[Diagnostic] = []
    missing: list[SchemaVersion] = []
    undeleted: list[SchemaVersion] = []
    extra: list[SchemaVersion] = []
    for name, entry in wanted.items():
        existing = {version.version: version for version in target.subjects[name].versions}
        for version in entry.versions:
            present = existing.pop(version.version, None)
            if present is None or (present.deleted and not version.deleted and _is_same(version, present)):
                missing.append(version)
            elif not _is_same(version, present):
                findings.append(_version_differs(version, present))
            else:
                findings += _check_rules(version, present)
            if version.deleted and (present is None or not present.deleted):
                undeleted.append(version)
        extra += existing.values()
    ordered, problems = _in_order(missing, {version.key for version in target.versions()})
    return RegistryDifference(
        tuple(ordered),
        tuple(reversed(_in_order(undeleted, set())[0])),
        tuple(extra),
        _configs(wanted, target, source, context),
        {name: entry.mode for name, entry in wanted.items() if entry.mode != target.subjects[name].mode},
        (*findings, *problems, *_check_extra(extra), *_check_whole_registry(wanted, target, source, context)),
    )


def id_conflict(version: SchemaVersion, source_name: str, target_name: str) -> Diagnostic:
    """Return the finding for an id that means something else at the target."""
    return Diagnostic(
        ERROR,
        f"schema id {version.id}",
        ID_MEANS_TWO_THINGS(source=source_name, target=target_name),
    )


def _is_same(version: SchemaVersion, present: SchemaVersion) -> bool:
    return version.id == present.id and version.schema.means_same(present.schema)


def _version_differs(version: SchemaVersion, present: SchemaVersion) -> Diagnostic:
    what = "another schema with the same id"
    if version.id != present.id:
        what = f"id {present.id}, and id {version.id} at the source"
    return Diagnostic(ERROR, f"subject {version.subject}", VERSION_DIFFERS(version=version.version, what=what))


def _check_rules(version: SchemaVersion, present: SchemaVersion) -> Iterator[Diagnostic]:
    if version.schema.rules != present.schema.rules:
        text = f"version {version.version} has other rules at the target: set them there"
        yield Diagnostic(WARNING, f"subject {version.subject}", text)


def _check_extra(extra: Iterable[SchemaVersion]) -> Iterator[Diagnostic]:
    for version in extra:
        text = f"has version {version.version} (id {version.id}) at the target, which the source does not have"
        yield Diagnostic(WARNING, f"subject {version.subject}", text)


def _configs(
    wanted: Mapping[str, SubjectEntry], target: Catalog, source: Catalog, context: str
) -> dict[str, Mapping[str, Any]]:
    configs = {name: entry.config for name, entry in wanted.items() if entry.config != target.subjects[name].config}
    if not context and source.config != target.config and not _own_subjects(wanted, target):
        configs[""] = source.config
    return configs


def _own_subjects(wanted: Mapping[str, SubjectEntry], target: Catalog) -> list[str]:
    return sorted(target.all_subjects - wanted.keys())


def _check_whole_registry(
    wanted: Mapping[str, SubjectEntry], target: Catalog, source: Catalog, context: str
) -> Iterator[Diagnostic]:
    """Yield what applies to all subjects, and is not changed."""
    own = _own_subjects(wanted, target)
    if not context and source.config != target.config and own:
        text = (
            f"has {_config_text(source)} at the source and {_config_text(target)} at the target for subjects without"
            f" their own; not changed, as the target has other subjects ({own[0]})"
        )
        yield Diagnostic(WARNING, REGISTRY, text)
    if target.mode not in ("", "READWRITE"):
        yield Diagnostic(WARNING, REGISTRY, f"of the target is in mode {target.mode}: clients cannot register schemas")
    elif source.mode not in ("", "READWRITE"):
        text = f"of the source is in mode {source.mode}; the target's mode is not changed"
        yield Diagnostic(NOTE, REGISTRY, text)


def _config_text(catalog: Catalog) -> str:
    return f"compatibility {catalog.config.get('compatibility', 'unknown')}"


def _in_order(
    missing: Iterable[SchemaVersion], present: set[tuple[str, int]]
) -> tuple[list[SchemaVersion], list[Diagnostic]]:
    """Return the versions, each after those to which it refers, and those whose references cannot be there."""
    versions = {version.key: version for version in missing}
    ordered: dict[tuple[str, int], SchemaVersion] = {}
    problems: list[Diagnostic] = []
    for start in versions:
        stack, path = [(start, False)], set[tuple[str, int]]()
        while stack:  # a chain of references may be long
            key, are_references_done = stack.pop()
            if key in ordered:
                continue
            if are_references_done:
                path.discard(key)
                ordered[key] = versions[key]
                continue
            path.add(key)
            stack.append((key, True))
            for reference in versions[key].schema.references:
                needed = reference.subject, reference.version
                if needed in path:
                    problems.append(_reference_problem(versions[key], needed, "which refers to it, too"))
                elif needed in versions:
                    stack.append((needed, False))
                elif needed not in present:
                    text = "which is not at the target; allowed: schemas.include with that subject"
                    problems.append(_reference_problem(versions[key], needed, text))
    return list(ordered.values()), list(dict.fromkeys(problems))


def _reference_problem(version: SchemaVersion, needed: tuple[str, int], text: str) -> Diagnostic:
    text = f"version {version.version} refers to {needed[0]} version {needed[1]}, {text}"
    return Diagnostic(ERROR, f"subject {version.subject}", text)
