"""A schema registry in this process, as Confluent's documents describe their API.

https://docs.confluent.io/platform/current/schema-registry/develop/api.html

It keeps what it gets in memory: subjects in contexts, versions with ids and GUIDs, soft and permanent deletion,
references, compatibility (not checked), and the modes READWRITE, READONLY and IMPORT. `ignores_ids` makes it assign ids
itself in IMPORT, as Apicurio Registry does. `faults` answer in its place.
"""

from __future__ import annotations

import json
import re
import ssl
import threading
import uuid
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


class Refusal(Exception):
    """An error of the registry: its HTTP status is the beginning of its code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class Version:
    """A version of a subject."""

    id: int
    schema: dict[str, Any]
    deleted: bool = False


@dataclass
class Subject:
    """A subject that has, or had, versions, or has settings."""

    versions: dict[int, Version] = field(default_factory=dict)
    config: dict[str, Any] | None = None
    mode: str | None = None


Fault = Callable[[BaseHTTPRequestHandler], bool]
"""Answers a request in place of the registry; returns False to leave it to the registry."""


def context_of(subject: str) -> str:
    match = re.match(r":(\.[^:]*):", subject)
    return match[1] if match else "."


class SchemaRegistry:
    """The registry: `url` is its address while `serving` is open."""

    def __init__(self, first_id: int = 1, *, login: str = "", ignores_ids: bool = False) -> None:
        self.subjects: dict[str, Subject] = {}
        self.config: dict[str, Any] = {"compatibilityLevel": "BACKWARD"}
        self.mode = "READWRITE"
        self.next_ids: dict[str, int] = {}
        self.first_id = first_id
        self.authorization = f"Basic {b64encode(login.encode()).decode()}" if login else ""
        self.ignores_ids = ignores_ids
        self.faults: list[Fault] = []
        self.requests: list[str] = []
        self.lock = threading.Lock()
        self.url = ""

    # For tests

    def register(self, subject: str, schema: str | dict[str, Any], **more: Any) -> int:
        """Register a schema as a client does, and return its id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return int(self._register(subject, {"schema": text, **more})["id"])

    @contextmanager
    def serving(self, tls: ssl.SSLContext | None = None) -> Iterator[SchemaRegistry]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                registry.requests.append(f"{self.command} {unquote(self.path)}")
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if any(fault(self) for fault in registry.faults):
                    return
                status, value = registry.answer(self.command, self.path, body, self.headers.get("Authorization", ""))
                self.reply(status, value)

            def reply(self, status: int, value: Any) -> None:
                data = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        for method in ("GET", "PUT", "POST", "DELETE"):
            setattr(Handler, f"do_{method}", Handler._serve)
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    # The API

    def answer(self, method: str, target: str, body: bytes, authorization: str) -> tuple[int, Any]:
        """Return the status and the value of the reply."""
        if authorization != self.authorization and self.authorization:
            return 401, {"error_code": 401, "message": "Unauthorized"}
        parts = urlsplit(target)
        path = [unquote(part) for part in parts.path.strip("/").split("/")]
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        with self.lock:
            try:
                return 200, self._route(method, path, query, json.loads(body) if body else {})
            except Refusal as error:
                status = int(str(error.code)[:3])
                return status, {"error_code": error.code, "message": str(error)}

    def _route(self, method: str, path: list[str], query: dict[str, str], value: dict[str, Any]) -> Any:
        match method, path:
            case "GET", ["subjects"]:
                return self._list(query.get("subjectPrefix", ":*:"), query.get("deleted") == "true")
            case "GET", ["contexts"]:
                return sorted({".", *map(context_of, self.subjects)})
            case "GET", ["subjects", subject, "versions"]:
                return self._versions(subject, query.get("deleted") == "true")
            case "GET", ["subjects", subject, "versions", number]:
                return self._version(subject, int(number), query.get("deleted") == "true")
            case "POST", ["subjects", subject, "versions"]:
                return self._register(subject, value)
            case "DELETE", ["subjects", subject, "versions", number]:
                return self._delete(subject, int(number), query.get("permanent") == "true")
            case "GET", ["schemas", "ids", number]:
                return self._by_id(int(number), query.get("subject", ""))[0]
            case "GET", ["schemas", "ids", number, "versions"]:
                return self._by_id(int(number), query.get("subject", ""))[1]
            case "GET", ["schemas", "guids", guid]:
                return self._by_guid(guid)
            case method, ["config", *subject]:
                return self._config(method, subject[0] if subject else "", value)
            case method, ["mode", *subject]:
                return self._mode(method, subject[0] if subject else "", value, query.get("force") == "true")
        raise Refusal(404, "HTTP 404 Not Found")

    def _list(self, prefix: str, deleted: bool) -> list[str]:
        names = [
            name
            for name, subject in self.subjects.items()
            if any(deleted or not version.deleted for version in subject.versions.values())
        ]
        return names if prefix == ":*:" else [name for name in names if name.startswith(prefix)]

    def _versions(self, subject: str, deleted: bool) -> list[int]:
        versions = self.subjects.get(subject, Subject()).versions
        numbers = sorted(number for number, version in versions.items() if deleted or not version.deleted)
        if not numbers:
            raise Refusal(40401, f"Subject '{subject}' not found.")
        return numbers

    def _version(self, subject: str, number: int, deleted: bool) -> dict[str, Any]:
        if number not in self._versions(subject, deleted):
            raise Refusal(40402, f"Version {number} not found.")
        version = self.subjects[subject].versions[number]
        return {
            "subject": subject,
            "version": number,
            "id": version.id,
            "guid": guid_of(version.schema),
            **version.schema,
        }

    def _register(self, subject: str, value: dict[str, Any]) -> dict[str, Any]:
        mode = self._effective_mode(subject)
        schema = {key: value[key] for key in _SCHEMA_KEYS if value.get(key)}
        id = 0 if self.ignores_ids else value.get("id", 0)
        if mode == "READONLY":
            raise Refusal(42205, f"Subject {subject} is in read-only mode")
        if bool(id) != (mode == "IMPORT" and not self.ignores_ids):
            word = "import" if id else "read-write"
            raise Refusal(42205, f"Subject {subject} is not in {word} mode")
        for reference in schema.get("references", []):
            name = self._qualified(reference["subject"], context_of(subject))
            if reference["version"] not in self.subjects.get(name, Subject()).versions:
                raise Refusal(42201, f"No schema reference found for subject {name}")
        versions = self.subjects.setdefault(subject, Subject()).versions
        same = self._same(context_of(subject), schema)
        if not id:
            for version in versions.values():
                if version.schema == schema and not version.deleted:
                    return {"id": version.id, "guid": guid_of(schema)}
            id = same or self.next_ids.get(context_of(subject), self.first_id)
        elif (existing := self._schema_of(context_of(subject), id)) is not None and existing != schema:
            raise Refusal(42205, f"Overwrite new schema with id {id} is not permitted.")
        versions[
            value.get("version") if mode == "IMPORT" and value.get("version") else max(versions, default=0) + 1
        ] = Version(id, schema)
        context = context_of(subject)
        self.next_ids[context] = max(self.next_ids.get(context, self.first_id), id + 1)
        return {"id": id, "guid": guid_of(schema)}

    def _schema_of(self, context: str, id: int) -> dict[str, Any] | None:
        return next((version.schema for _, _, version in self._all(context) if version.id == id), None)

    def _same(self, context: str, schema: dict[str, Any]) -> int:
        return next((version.id for _, _, version in self._all(context) if version.schema == schema), 0)

    def _all(self, context: str) -> Iterator[tuple[str, int, Version]]:
        for name, subject in self.subjects.items():
            if context_of(name) == context:
                for number, version in subject.versions.items():
                    yield name, number, version

    @staticmethod
    def _qualified(subject: str, context: str) -> str:
        return subject if context_of(subject) != "." or context == "." else f":{context}:{subject}"

    def _delete(self, subject: str, number: int, permanent: bool) -> int:
        if number not in self._versions(subject, True):
            raise Refusal(40402, f"Version {number} not found.")
        version = self.subjects[subject].versions[number]
        if self._effective_mode(subject) == "READONLY":
            raise Refusal(42205, f"Subject {subject} is in read-only mode")
        if version.deleted and not permanent:
            raise Refusal(40406, f"Subject '{subject}' Version {number} was soft deleted.")
        if permanent and not version.deleted:
            raise Refusal(40407, f"Subject '{subject}' Version {number} was not deleted first.")
        wanted = (subject, number)
        for name, _, each in self._all(context_of(subject)):
            references = each.schema.get("references", [])
            if not each.deleted and any(
                (self._qualified(one["subject"], context_of(name)), one["version"]) == wanted for one in references
            ):
                raise Refusal(42206, f"One or more references exist to the schema {subject} version {number}")
        if permanent:
            del self.subjects[subject].versions[number]
        version.deleted = True
        return number

    def _by_id(self, id: int, subject: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        places = [
            (name, number, version) for name, number, version in self._all(context_of(subject)) if version.id == id
        ]
        if not places:
            raise Refusal(40403, f"Schema {id} not found.")
        living = [(name, number) for name, number, version in places if not version.deleted]
        return places[0][2].schema, [{"subject": name, "version": number} for name, number in living]

    def _by_guid(self, guid: str) -> dict[str, Any]:
        for subject in self.subjects.values():
            for version in subject.versions.values():
                if guid_of(version.schema) == guid:
                    return {**version.schema, "guid": guid}
        raise Refusal(40403, f"Schema {guid} not found.")

    def _config(self, method: str, subject: str, value: dict[str, Any]) -> dict[str, Any]:
        if not subject:
            if method == "PUT":
                self.config = {"compatibilityLevel": value["compatibility"], **_more(value)}
                return value
            return self.config
        entry = self.subjects.setdefault(subject, Subject())
        if method != "GET" and self._effective_mode(subject) == "READONLY":
            raise Refusal(42205, f"Subject {subject} is in read-only mode")
        if method == "PUT":
            entry.config = {"compatibilityLevel": value.get("compatibility"), **_more(value)}
            return value
        if entry.config is None:
            raise Refusal(40408, f"Subject '{subject}' does not have subject-level compatibility configured")
        config = entry.config
        if method == "DELETE":
            entry.config = None
        return config

    def _effective_mode(self, subject: str) -> str:
        return self.subjects.get(subject, Subject()).mode or self.mode

    def _mode(self, method: str, subject: str, value: dict[str, Any], force: bool) -> dict[str, Any]:
        if not subject:
            self.mode = value["mode"] if method == "PUT" else self.mode
            return {"mode": self.mode}
        entry = self.subjects.setdefault(subject, Subject())
        if method == "PUT":
            if value["mode"] == "IMPORT" and entry.versions and not force:
                raise Refusal(42205, "Cannot import since found existing subjects")
            entry.mode = value["mode"]
            return value
        if entry.mode is None:
            raise Refusal(40409, f"Subject '{subject}' does not have subject-level mode configured")
        mode = entry.mode
        if method == "DELETE":
            entry.mode = None
        return {"mode": mode}


_SCHEMA_KEYS = ("schema", "schemaType", "references", "metadata", "ruleSet")


def guid_of(schema: dict[str, Any]) -> str:
    """Return the GUID of a schema, which its content decides."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(schema, sort_keys=True)))


def _more(value: dict[str, Any]) -> dict[str, Any]:
    return {key: each for key, each in value.items() if key != "compatibility"}
