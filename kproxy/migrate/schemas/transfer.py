"""Copies what the target's registry lacks, with the same ids, and verifies it by reading it again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase

from kproxy.base.diagnostic import ERROR, Diagnostic, severities
from kproxy.base.messages.schemas import IDS_NOT_KEPT, IMPORT_NOT_KEPT, LEFT_IN_IMPORT
from kproxy.migrate.schemas.catalog import Catalog, CatalogReader, SubjectEntry, each, find_by_id, name_by_id
from kproxy.migrate.schemas.comparison import (
    RegistryDifference,
    as_at_target,
    compare_registries,
    id_conflict,
)
from kproxy.migrate.schemas.registry import RegistryClient, RegistryError
from kproxy.migrate.schemas.schema import (
    Schema,
    SchemaVersion,
    first_of_each_id,
    request_of,
    split_subject,
)
from kproxy.migrate.spec.schemas_section import SchemasSection

LogWriter = Callable[[str], None]
_IMPORT, _READ_WRITE = "IMPORT", "READWRITE"


class TransferStopped(RegistryError):
    """The target does not do what it confirms, so that nothing more is copied."""


@dataclass(frozen=True, slots=True)
class TransferResult:
    """The changes of one round of the copy, and its findings."""

    subjects: int
    versions: int
    """The versions of the source, deleted ones too."""
    ids: int
    changes: tuple[str, ...]
    """The changes, made or, with a dry run, to make, in words."""
    findings: tuple[Diagnostic, ...]

    @property
    def is_verified(self) -> bool:
        """True if each version and each id was read at the target, and is the source's."""
        return ERROR not in severities(self.findings)


class SchemaTransfer:
    """The copy of one registry to another; each round copies what is new at the source."""

    def __init__(self, section: SchemasSection, source: RegistryClient, target: RegistryClient, log: LogWriter) -> None:
        self._section, self._source, self._target, self._log = section, source, target, log
        self._source_reader, self._target_reader = CatalogReader(source), CatalogReader(target)
        self._verified: set[tuple[str, int]] = set()
        """The contexts and ids whose schemas the target has returned."""

    def run_round(self, *, dry_run: bool = False) -> TransferResult:
        """Copy what the target lacks, and verify all.

        Nothing is changed with `dry_run`, or if a version or an id means something else at the target.
        """
        source = self._source_reader.read(self._is_selected)
        wanted = as_at_target(source, self._section.context)
        target = self._read_target(wanted)
        difference = self._compare(wanted, target, source)
        findings = [*difference.findings, *self._check_ids(wanted, target, difference.extra)]
        if ERROR in severities(findings):
            return self._result(wanted, (), findings)
        changes = tuple(_describe(difference))
        if dry_run:
            return self._result(wanted, changes, [*findings, *_still_different(difference)])
        if not difference.is_empty:
            self._apply(difference, wanted, target)
            self._target_reader.forget(version.key for version in difference.missing)
            target = self._read_target(wanted)
            difference = self._compare(wanted, target, source)
            findings = list(difference.findings)
        findings += [*_still_different(difference), *self._verify_ids(wanted)]
        return self._result(wanted, changes, findings)

    def _result(
        self, wanted: Mapping[str, SubjectEntry], changes: tuple[str, ...], findings: Iterable[Diagnostic]
    ) -> TransferResult:
        versions = list(_versions(wanted))
        ids = len(first_of_each_id(versions))
        return TransferResult(len(wanted), len(versions), ids, changes, tuple(dict.fromkeys(findings)))

    def _is_selected(self, subject: str) -> bool:
        section = self._section
        return any(fnmatchcase(subject, glob) for glob in section.include) and not any(
            fnmatchcase(subject, glob) for glob in section.exclude
        )

    def _read_target(self, wanted: Mapping[str, SubjectEntry]) -> Catalog:
        """Return the target's subjects that are wanted, and those to which they refer."""
        referred = {each.subject for version in _versions(wanted) for each in version.schema.references}
        return self._target_reader.read(lambda _: False, {*wanted, *referred})

    def _compare(self, wanted: Mapping[str, SubjectEntry], target: Catalog, source: Catalog) -> RegistryDifference:
        return compare_registries(wanted, target, source, self._section.context)

    # Ids

    def _check_ids(
        self, wanted: Mapping[str, SubjectEntry], target: Catalog, extra: Iterable[SchemaVersion]
    ) -> Iterator[Diagnostic]:
        """Yield ids that mean something else on the other side."""
        contexts = {split_subject(name)[0] for name in target.all_subjects}
        present = {(split_subject(version.subject)[0], version.id) for version in target.versions()}
        first = first_of_each_id(_versions(wanted))
        unknown = {place: version for place, version in first.items() if place not in present | self._verified}
        # Some registries return the default context's schema where a context has no subject.
        yield from self._conflicts({place: each for place, each in unknown.items() if place[0] in contexts})
        for version in extra:
            other = first.get((split_subject(version.subject)[0], version.id))
            if other is not None and not other.schema.means_same(version.schema):
                yield id_conflict(other, str(other), str(version))

    def _conflicts(self, versions: Mapping[tuple[str, int], SchemaVersion]) -> Iterator[Diagnostic]:
        for (context, id), schema in zip(versions, self._find_all(versions), strict=True):
            version = versions[context, id]
            if schema is not None and not version.schema.means_same(schema):
                yield id_conflict(version, str(version), name_by_id(self._target, context, id))

    def _verify_ids(self, wanted: Mapping[str, SubjectEntry]) -> Iterator[Diagnostic]:
        """Yield ids under which the target does not return the source's schema; each is read once by this process."""
        first = first_of_each_id(_versions(wanted))
        unverified = {place: version for place, version in first.items() if place not in self._verified}
        for (place, version), schema in zip(unverified.items(), self._find_all(unverified), strict=True):
            if schema is None:
                text = f"of {version} is not known at the target, though it has the version"
                yield Diagnostic(ERROR, f"schema id {version.id}", text)
            elif not version.schema.means_same(schema):
                yield id_conflict(version, str(version), name_by_id(self._target, *place))
            else:
                self._verified.add(place)

    def _find_all(self, places: Iterable[tuple[str, int]]) -> Iterator[Schema | None]:
        return each(lambda place: find_by_id(self._target, *place), list(places))

    # Changes

    def _apply(self, difference: RegistryDifference, wanted: Mapping[str, SubjectEntry], target: Catalog) -> None:
        """Make the changes. Raises TransferStopped if the target does not keep an id."""
        with self._importing(wanted, target) as begin_import:
            for version in difference.missing:
                begin_import(version.subject)
                self._register(version)
            for version in difference.undeleted:
                begin_import(version.subject)
                self._log(f"deleting {version} (id {version.id}), as at the source")
                self._delete("subjects", version.subject, "versions", version.version)
            for subject, config in difference.configs.items():
                if subject and target.subjects[subject].mode not in ("", _READ_WRITE):
                    begin_import(subject)  # settings of a subject in READONLY cannot be changed
                self._set_config(subject, config)
        for subject, mode in difference.modes.items():
            self._log(f"setting the mode of {subject}: {mode or 'none of its own'}")
            self._set_mode(subject, mode, target.mode)

    @contextmanager
    def _importing(self, wanted: Mapping[str, SubjectEntry], target: Catalog) -> Iterator[Callable[[str], None]]:
        """Yield a function that sets the mode IMPORT; at the end, the subjects get the modes that they have to have."""
        begun: dict[str, None] = {}
        problems: list[str] = []

        def begin(subject: str) -> None:
            if subject not in begun:
                begun[subject] = None
                self._target.send("PUT", "mode", subject, value={"mode": _IMPORT}, force="true")
                self._check_import(subject)

        try:
            yield begin
        finally:
            for subject in begun:
                try:
                    self._set_mode(subject, wanted[subject].mode, target.mode)
                except RegistryError as error:
                    problems.append(f"subject {subject} {LEFT_IN_IMPORT(error=error)}")
        if problems:
            raise RegistryError(problems[0])

    def _check_import(self, subject: str) -> None:
        reply = self._target.find("mode", subject)
        mode = reply.get("mode") if isinstance(reply, dict) else None
        if mode != _IMPORT:
            text = IMPORT_NOT_KEPT(subject=subject, mode=mode or "unknown")
            raise TransferStopped(f"{self._target.name} {text}")

    def _register(self, version: SchemaVersion) -> None:
        self._log(f"registering {version} (id {version.id})")
        reply = self._target.send("POST", "subjects", version.subject, "versions", value=request_of(version))
        given = reply.get("id") if isinstance(reply, dict) else None
        if given != version.id:
            text = IDS_NOT_KEPT(given=given, version=version, id=version.id)
            raise TransferStopped(f"{self._target.name} {text}")

    def _set_config(self, subject: str, config: Mapping[str, object]) -> None:
        path = ("config", subject) if subject else ("config",)
        self._log(f"setting the compatibility of {subject or 'the registry'}: {_config_text(config)}")
        if config:
            self._target.send("PUT", *path, value=dict(config))
        else:
            self._delete(*path)

    def _set_mode(self, subject: str, mode: str, registry_mode: str) -> None:
        """Set the mode of a subject, "" for none of its own."""
        if mode:
            force = {"force": "true"} if mode == _IMPORT else {}
            self._target.send("PUT", "mode", subject, value={"mode": mode}, **force)
            return
        self._delete("mode", subject)
        reply = self._target.find("mode", subject)
        if isinstance(reply, dict) and reply.get("mode") == _IMPORT:  # registries before DELETE /mode
            self._target.send("PUT", "mode", subject, value={"mode": registry_mode or _READ_WRITE})

    def _delete(self, *path: str | int) -> None:
        """Delete what may be gone: another attempt may have done it. A registry may not know how to delete a mode."""
        try:
            self._target.send("DELETE", *path)
        except RegistryError as error:
            if error.status not in (404, 405):
                raise


def _versions(entries: Mapping[str, SubjectEntry]) -> Iterator[SchemaVersion]:
    for name in sorted(entries):
        yield from entries[name].versions


def _describe(difference: RegistryDifference) -> Iterator[str]:
    for version in difference.missing:
        yield f"register {version} (id {version.id})"
    for version in difference.undeleted:
        yield f"delete {version} (id {version.id}), as at the source"
    for subject, config in difference.configs.items():
        yield f"set the compatibility of {subject or 'the registry'}: {_config_text(config)}"
    for subject, mode in difference.modes.items():
        yield f"set the mode of {subject}: {mode or 'none of its own'}"


def _config_text(config: Mapping[str, object]) -> str:
    return str(config.get("compatibility", "other settings")) if config else "none of its own"


def _still_different(difference: RegistryDifference) -> Iterator[Diagnostic]:
    """Yield what differs after the copy, or before it with --dry-run."""
    for version in difference.missing:
        text = f"version {version.version} (id {version.id}) is not at the target"
        yield Diagnostic(ERROR, f"subject {version.subject}", text)
    for version in difference.undeleted:
        yield Diagnostic(ERROR, f"subject {version.subject}", f"version {version.version} is not deleted at the target")
    for subject, config in difference.configs.items():
        text = f"compatibility is not {_config_text(config)} at the target, as it is at the source"
        yield Diagnostic(ERROR, f"subject {subject}" if subject else "schema registry", text)
    for subject, mode in difference.modes.items():
        text = f"mode is not {mode or 'that of the registry'} at the target, as it is at the source"
        yield Diagnostic(ERROR, f"subject {subject}", text)
