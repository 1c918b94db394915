"""Findings of `kproxy migrate schemas`."""

from __future__ import annotations

from kproxy.base.messages.message import Message, alike

ID_MEANS_TWO_THINGS, VERSION_DIFFERS = alike(
    "Both registries have given ids themselves, so records of the source would be read with a schema of the target. "
    "Nothing was changed. If the target's schema is not needed, delete its subject for good (`?permanent=true`). If it "
    "is, set `schemas.context` in the file: kproxy then copies into a context, in which ids are separate. Clients of "
    "these records must then use that context: [migration.md](migration.md#schemas).",
    "is {source} at the source, and another schema at the target: {target}",
    "version {version} at the target is {what}",
)
IDS_NOT_KEPT, IMPORT_NOT_KEPT = alike(
    "This registry assigns ids itself, whatever a client gives. Records would be read with other schemas, or with none. "
    "Use a registry with the mode IMPORT of Confluent's API, or the registry's own way to import with ids "
    "(such as Apicurio's `/admin/import`), and then `kproxy migrate schemas FILE --dry-run` to compare both.",
    "has given id {given} to {version}, which has id {id} at the source: it does not keep ids in mode IMPORT. Delete that version there",
    "does not keep the mode IMPORT, in which clients give ids: after it was set, the mode of {subject} is {mode}",
)
SCHEMA_MISSING = Message(
    "{part} have schema ids that the {side}'s registry does not have: {ids}; run kproxy migrate schemas FILE{option}",
    "After the switch, a client that asks the target's registry could not read these records; after a rollback, one that "
    "asks the source's. It is an error before a switch, and a warning before a rollback.",
)
LEFT_IN_IMPORT = Message(
    "may still be in mode IMPORT at the target, so clients cannot register schemas there: run kproxy migrate schemas FILE again ({error})",
    "kproxy could not set the mode back, as the registry did not answer.",
)
