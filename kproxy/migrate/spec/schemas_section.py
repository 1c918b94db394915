"""The section `schemas` of a migration's file: the schema registries of both clusters (pure)."""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from kproxy.base.errors import ConfigError
from kproxy.config import kinds
from kproxy.config.kinds import ValueKind, string
from kproxy.config.values import quote
from kproxy.migrate.spec.declarations import FILE, SectionKind, globs, key

_CONTEXT_PATTERN = r"[A-Za-z0-9_.-]{1,200}"


def _parse_context(text: str) -> str:
    if not re.fullmatch(_CONTEXT_PATTERN, text):
        raise ValueError(f"{quote(text)} cannot be a context; allowed: letters, digits, '.', '_' and '-'")
    return text


_CONTEXT = ValueKind("NAME", "the name of a context", (), _parse_context, str, string(f"^{_CONTEXT_PATTERN}$"))
_SUBJECTS = globs(r".+", "a subject or a glob")


@dataclass(frozen=True, slots=True)
class RegistrySection:
    """One schema registry, and how to log in there."""

    url: str = key(kinds.WEB_URL, "Address of Confluent's API; Apicurio has it at /apis/ccompat/v7.", default=MISSING)
    username: str = key(kinds.text("NAME"), "User, or API key, of HTTP's Basic login.", default="")
    password_file: Path | None = key(FILE, "File with the password, or the API secret.")
    token_file: Path | None = key(FILE, "File with a bearer token.")
    ca: Path | None = key(FILE, "Certificates to trust, a PEM file; by default, the system's.")
    certificate: Path | None = key(FILE, "Client certificate, a PEM file; it may have the key, too.")
    certificate_key: Path | None = key(FILE, "Key of the client certificate, a PEM file.")

    def problem(self) -> str:
        """Return why the section cannot be used, "" if it can."""
        try:
            parts = urlsplit(self.url)
            is_plain = parts.port != 0 and bool(parts.hostname) and not (parts.query or parts.fragment)
        except ValueError:
            is_plain = False
        if not is_plain:
            return "has a url with another port, or with ? or #; allowed: https://HOST[:PORT][/PATH], or http://"
        if (not self.username) != (self.password_file is None):
            return "has only one of username and password-file; allowed: both"
        if self.username and self.token_file is not None:
            return "has username and token-file; allowed: one way to log in"
        if self.certificate_key is not None and self.certificate is None:
            return "has certificate-key without certificate; allowed: both"
        return ""


_REGISTRY = "URL, or {url: URL, username: NAME, password-file: FILE, ca: FILE, …}"


@dataclass(frozen=True, slots=True)
class SchemasSection:
    """The options of the section `schemas`."""

    source: RegistrySection = key(
        SectionKind(RegistrySection, _REGISTRY, "url"), "Registry with the source's schemas.", default=MISSING
    )
    target: RegistrySection = key(
        SectionKind(RegistrySection, _REGISTRY, "url"), "Registry that gets them.", default=MISSING
    )
    include: tuple[str, ...] = key(_SUBJECTS, "Globs of the subjects to copy.", default=("*",), repeatable=True)
    exclude: tuple[str, ...] = key(_SUBJECTS, "Globs of subjects to leave out.", repeatable=True)
    context: str = key(
        _CONTEXT,
        "Context of the target's registry for subjects without a context, if both registries have ids of their own.",
        default="",
    )

    def reversed(self) -> SchemasSection:
        """Return the section for the copy from the target to the source. Raises ConfigError with a context."""
        if self.context:
            raise ConfigError(
                f"schemas: the subjects are in the context {self.context} of the target, whose ids mean nothing at the"
                " source: nothing can be copied back"
            )
        return replace(self, source=self.target, target=self.source)
