"""A `client.properties` of a Kafka client: settings that concern a proxy become options, the others are ignored.

The keys are Java's (Kafka's CommonClientConfigs, SaslConfigs), and librdkafka's where they differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import javaproperties

from kproxy.base.diagnostic import Diagnostic, DiagnosticPlace
from kproxy.config.jaas import parse_entry
from kproxy.config.kinds import PROTOCOLS
from kproxy.config.options import cluster_settings
from kproxy.config.sasl import EXCLUSIVE, MECHANISMS, is_for
from kproxy.config.sources import Layer, mistake

MAX_BYTES = 1024 * 1024

_SERVERS = {"bootstrap.servers": "bootstrap-servers", "metadata.broker.list": "bootstrap-servers"}
_SASL = {
    "sasl.username": "sasl-username",
    "sasl.password": "sasl-password",
    "sasl.kerberos.service.name": "kerberos-service",
    "sasl.kerberos.principal": "sasl-username",
    "sasl.kerberos.keytab": "kerberos-keytab",
    "sasl.oauthbearer.token.endpoint.url": "oauth-token-url",
    "sasl.oauthbearer.client.credentials.client.id": "sasl-username",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl-password",
    "sasl.oauthbearer.client.id": "sasl-username",
    "sasl.oauthbearer.client.secret": "sasl-password",
    "sasl.oauthbearer.scope": "oauth-scope",
    "sasl.oauthbearer.extensions": "oauth-extensions",
}
_TLS = {
    "ssl.truststore.location": "tls-ca",
    "ssl.truststore.password": "tls-ca-password",
    "ssl.keystore.location": "tls-cert",
    "ssl.keystore.password": "tls-key-password",
    "ssl.key.password": "tls-key-password",
    "ssl.ca.location": "tls-ca",
    "ssl.certificate.location": "tls-cert",
    "ssl.key.location": "tls-key",
}
# PEM within the file.
_INLINE = (
    "ssl.truststore.certificates",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.ca.pem",
    "ssl.certificate.pem",
    "ssl.key.pem",
)
_JAAS = {
    "username": "sasl-username",
    "password": "sasl-password",
    "clientId": "sasl-username",
    "clientSecret": "sasl-password",
    "scope": "oauth-scope",
    "principal": "sasl-username",
    "keyTab": "kerberos-keytab",
    "serviceName": "kerberos-service",
    "awsProfileName": "aws-profile",
}
_ACKS = {"0": 0, "1": 1, "all": -1, "-1": -1}
# Settings of a login that kproxy does not support.
_NOT_THERE = {
    "tokenauth": "kproxy does not support delegation tokens",
    "awsRoleArn": "give a role as a profile of ~/.aws (role_arn, source_profile) with awsProfileName",
    "unsecuredLoginStringClaim_sub": "kproxy does not create unsecured tokens; give a token with oauth-token-file",
}


def read_client_config(merged: Layer, cluster: int) -> None:
    """Read the file that a cluster names, and use each option that no other source sets."""
    settings, given = cluster_settings(), set(merged.clusters[cluster])
    file = _File(Path(str(merged.clusters[cluster]["client-config"])).expanduser(), merged.problems)
    merged.broken |= file.broken
    for key, property in file.options().items():
        rivals = next((group for group in EXCLUSIVE if key in group), (key,))
        if not given.intersection(rivals):
            merged.put(settings[key], property.value, DiagnosticPlace(str(file.path), property.line), cluster)


@dataclass(frozen=True, slots=True)
class ClientUse:
    """The uses of a cluster that a client's file names, in Java's or librdkafka's properties."""

    group: str | None = None
    acks: int | None = None
    """0, 1, or -1 for all replicas in sync; None also for a value that no client accepts."""


def read_client_use(path: Path) -> ClientUse:
    """Return what the client of a file does. Mistakes in the file are for `read_client_config` to report."""
    file = _File(path.expanduser(), [])
    acks = file.value("acks") or file.value("request.required.acks") or ""
    return ClientUse(file.value("group.id") or None, _ACKS.get(acks.lower()))


@dataclass(frozen=True, slots=True, repr=False)
class _Property:
    """A value, perhaps a secret, and the property that it comes from."""

    value: str
    name: str
    line: int


class _File:
    """One file. Mistakes in it go to `problems`."""

    def __init__(self, path: Path, problems: list[Diagnostic]) -> None:
        self.path = path
        self._problems = problems
        self._properties: dict[str, _Property] = {}
        self.broken = True
        """True if the file could not be read to its end, so that missing properties prove nothing."""
        try:
            self.broken = not self._read()
        except OSError as error:
            self._problem(0, "", f"cannot be read: {error.strerror}; allowed: a client.properties")
        except ValueError as error:
            self._problem(0, "", str(error))

    def _read(self) -> bool:
        """Read the properties; return False if they end with a mistake. Raises OSError and ValueError."""
        with self.path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ValueError(f"is larger than {MAX_BYTES // 1024} KiB; allowed: a client.properties")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = data.decode("latin-1")  # as java.util.Properties reads every file
        line = 1
        try:
            for part in javaproperties.parse(text):
                if isinstance(part, javaproperties.KeyValue):
                    self._properties[part.key] = _Property(part.value.strip(), part.key, line)
                line += part.source.count("\n") or 1
        except javaproperties.InvalidUEscapeError:  # it would repeat a part of the value
            self._problem(line, "", r"has \u without four hexadecimal digits")
            return False
        return True

    def value(self, name: str) -> str | None:
        """Return the value of a property; None if the file does not have it."""
        property = self._properties.get(name)
        return None if property is None else property.value

    def _problem(self, line: int, key: str, text: str) -> None:
        self._problems.append(mistake(DiagnosticPlace(str(self.path), line), key, text))

    def _mistake(self, property: _Property, text: str) -> None:
        self._problem(property.line, property.name, text)

    def _refuse(self, names: Iterable[str], text: str) -> None:
        """Report these properties, where they are given."""
        for name in names:
            if name in self._properties:
                self._mistake(self._properties[name], text)

    def options(self) -> dict[str, _Property]:
        """Return kproxy's options, by key."""
        options: dict[str, _Property] = {}
        text = "kproxy does not support config providers; write the values themselves"
        self._refuse(("config.providers",), text)
        self._take(options, _SERVERS, self._properties)
        protocol = self._protocol()
        if protocol.endswith("SSL"):
            self._encryption(options)
        if protocol.startswith("SASL_"):
            self._login(options)
        return options

    def _encryption(self, options: dict[str, _Property]) -> None:
        protocol = self._properties["security.protocol"]
        options["tls"] = replace(protocol, value="true")
        self._take(options, _TLS, self._properties)
        names = self._properties.get("ssl.endpoint.identification.algorithm")
        if names is not None and names.value.lower() in ("", "none"):
            options["tls-server-name"] = replace(names, value="*")
        checks = self._properties.get("enable.ssl.certificate.verification")
        if checks is not None and checks.value.lower() == "false":
            options["tls-insecure"] = replace(checks, value="true")
        text = (
            "kproxy reads PEM only from files; allowed: a PEM file in ssl.truststore.location or ssl.keystore.location"
        )
        self._refuse(_INLINE, text)

    def _protocol(self) -> str:
        property = self._properties.get("security.protocol")
        protocol = "PLAINTEXT" if property is None else property.value.upper()
        if property is not None and protocol not in PROTOCOLS:
            self._mistake(property, f"is unknown; allowed: {', '.join(PROTOCOLS)}")
        elif not protocol.startswith("SASL_"):
            text = f"is given, but with security.protocol {protocol} a client does not log in"
            names = ("sasl.mechanism", "sasl.mechanisms", "sasl.jaas.config")
            self._refuse(names, f"{text}; allowed: SASL_SSL, SASL_PLAINTEXT")
        return protocol

    def _login(self, options: dict[str, _Property]) -> None:
        self._take(options, {"sasl.mechanism": "sasl", "sasl.mechanisms": "sasl"}, self._properties)
        protocol = self._properties["security.protocol"]
        # Java's default.
        mechanism = options.setdefault("sasl", replace(protocol, value="GSSAPI")).value
        if mechanism not in MECHANISMS:
            return  # said by the option itself
        login: dict[str, _Property] = {}
        self._take(login, _SASL, self._properties)
        if "sasl.jaas.config" in self._properties:
            self._take(login, _JAAS, self._jaas(self._properties["sasl.jaas.config"], mechanism, login))
        url = login.get("oauth-token-url")
        if url is not None and url.value.startswith("file:"):
            path = "/" + url.value.removeprefix("file:").lstrip("/")
            login["oauth-token-file"] = replace(url, value=path)
            del login["oauth-token-url"]
        options.update((key, property) for key, property in login.items() if is_for(key, mechanism))

    def _jaas(self, property: _Property, mechanism: str, login: dict[str, _Property]) -> dict[str, _Property]:
        """Return the options of the login module, by their names there."""
        try:
            entry = parse_entry(property.value)
        except ValueError as error:
            self._mistake(property, str(error))
            return {}
        given, module = entry.options, entry.module.rpartition(".")[2]
        if mechanism not in entry.mechanisms:
            self._mistake(property, f"{module[:60]} is not the login module of {mechanism}")
            return {}
        for option in _NOT_THERE.keys() & given:
            self._problem(property.line, f"{property.name}: {option}", _NOT_THERE[option])
        extensions = [
            f"{name.removeprefix('extension_')}={value}"
            for name, value in given.items()
            if name.startswith("extension_")
        ]
        if extensions:
            login["oauth-extensions"] = replace(property, value=",".join(extensions))
        return {name: replace(property, value=value) for name, value in given.items()}

    def _take(self, options: dict[str, _Property], keys: Mapping[str, str], source: Mapping[str, _Property]) -> None:
        """Put the values of `source` under the keys of options; report two values for one option."""
        for name, key in keys.items():
            property = source.get(name)
            if property is None or not property.value:
                continue
            before = options.setdefault(key, property)
            if before.value != property.value:
                self._mistake(property, f"contradicts {before.name} on line {before.line}")
