"""Rules for clients of a cloud: its address demands a protocol, a mechanism and a port (`remedies.services`)."""

from __future__ import annotations

from collections.abc import Iterator

from kproxy.advice.lint.client import BootstrapServer, ClientConfig
from kproxy.advice.lint.findings import LintDiagnostic
from kproxy.advice.lint.model import PROTOCOLS
from kproxy.advice.lint.rules.table import finding
from kproxy.advice.remedies.services import CloudService, ServiceListener, service_of
from kproxy.base.faults import Fault
from kproxy.config.jaas import JaasError, parse_entry

_CONNECTION_STRING = "$ConnectionString"


def check(client: ClientConfig) -> Iterator[LintDiagnostic]:
    """Check a client against the cloud of its first bootstrap server in one."""
    for server in client.servers:
        cloud = service_of(server.host)
        if cloud is not None:
            yield from _check_port(client, cloud, server)
            # At a wrong port, the login still is wrong or right.
            listener = cloud.listener_at(0 if cloud.only_port else server.port or 0)
            if listener is not None:
                yield from _check_login(client, cloud, server, listener)
            return


def _check_port(client: ClientConfig, cloud: CloudService, server: BootstrapServer) -> Iterator[LintDiagnostic]:
    if cloud.only_port is not None and server.port not in (None, cloud.only_port):
        text = f"{server.host} is {cloud.name}, whose port is {cloud.only_port}, and not {server.port}"
        edits = server.value.change_entry(server.index, f":{server.port}", f":{cloud.only_port}")
        yield finding("cloud-port", server.value, client, text, edits, why=_why("cloud-port", cloud))


def _check_login(
    client: ClientConfig, cloud: CloudService, server: BootstrapServer, listener: ServiceListener
) -> Iterator[LintDiagnostic]:
    protocol, mechanism = client.settings.get("security.protocol"), client.settings.get("sasl.mechanism")
    place = f"{cloud.name} at port {server.port}" if server.port in cloud.ports else cloud.name
    if protocol is None and not client.complete:
        return
    if client.protocol in PROTOCOLS and client.protocol not in listener.protocols:
        wanted = _best_protocol(client, listener)
        given = f"security.protocol is {client.protocol}"
        line = f"security.protocol={wanted}"
        if protocol is None:
            given = "security.protocol is missing, which means PLAINTEXT"
        elif protocol.key == "enabled":  # Redpanda Console's switches
            given, line = f"its switches mean {client.protocol}", "tls: {enabled: true}"
        edits = protocol.replace(wanted) if protocol is not None else None
        if protocol is None and server.value.key == "bootstrap.servers":
            edits = server.value.insert_after([("security.protocol", wanted)])
        text = f"{given}, but {place} speaks {' or '.join(listener.protocols)}"
        why, fault = _why("cloud-protocol", cloud), _fault(client.protocol, wanted)
        at = protocol or server.value
        yield finding("cloud-protocol", at, client, text, edits, line, fault=fault, why=why)
        return
    if not client.protocol.startswith("SASL_") or not listener.mechanisms:
        return
    if mechanism is None and (client.complete or protocol is not None):
        text = f"sasl.mechanism is missing, which means GSSAPI, but {place} has {', '.join(listener.mechanisms)}"
        line, why = f"sasl.mechanism={listener.mechanisms[0]}", _why("cloud-mechanism", cloud)
        yield finding("cloud-mechanism", protocol or server.value, client, text, None, line, why=why)
    elif mechanism is not None and mechanism.is_known and mechanism.text.upper() not in listener.mechanisms:
        text = f"sasl.mechanism is {mechanism.text}, but {place} has {', '.join(listener.mechanisms)}"
        port = next((port for port, other in cloud.ports.items() if mechanism.text.upper() in other.mechanisms), None)
        line = f"sasl.mechanism={listener.mechanisms[0]}" + (f" (or port {port} for {mechanism.text})" if port else "")
        edits = mechanism.replace(listener.mechanisms[0]) if len(listener.mechanisms) == 1 and not port else None
        yield finding("cloud-mechanism", mechanism, client, text, edits, line, why=_why("cloud-mechanism", cloud))
    elif mechanism is not None and cloud.name == "Azure Event Hubs" and mechanism.text.upper() == "PLAIN":
        yield from _check_user(client)


def _check_user(client: ClientConfig) -> Iterator[LintDiagnostic]:
    """Check that Event Hubs gets a connection string, and the user name that it wants for one."""
    value, name = client.settings.get("sasl.jaas.config"), client.settings.get("sasl.username")
    user, at = (name.text, name) if name is not None else ("", None)
    password = client.get("sasl.password")
    if value is not None:
        try:
            options, at = parse_entry(value.text).options, value
        except JaasError:
            return  # the rules for JAAS report it
        user, password = options.get("username", ""), options.get("password", "")
    if at is not None and user == _CONNECTION_STRING and password.startswith("sb://"):
        text, line = "the connection string has no Endpoint= before sb://", 'password="Endpoint=sb://...;..."'
        why = "Event Hubs takes the whole connection string for the password, from Endpoint= on."
        yield finding("cloud-user", at, client, text, None, line, why=why)
    # Compose's readers write a variable with braces; `compose-dollar` reports it.
    if at is not None and user and user != _CONNECTION_STRING and "{" not in user:
        line = f'username="{_CONNECTION_STRING}"'
        yield finding("cloud-user", at, client, f"the user name is not {_CONNECTION_STRING}", None, line)


def _best_protocol(client: ClientConfig, listener: ServiceListener) -> str:
    """Return the protocol that fits to the rest of the client's settings."""
    has_login = any(key in client.settings for key in ("sasl.mechanism", "sasl.jaas.config", "sasl.username"))
    has_certificate = any(key.startswith(("ssl.keystore", "ssl.certificate")) for key in client.settings)
    likely = "SASL_SSL" if has_login else "SSL" if has_certificate else ""
    return likely if likely in listener.protocols else listener.protocols[0]


def _why(rule: str, cloud: CloudService) -> str:
    what = {"cloud-port": "this port only", "cloud-protocol": "this protocol", "cloud-mechanism": "these mechanisms"}[
        rule
    ]
    return f"{cloud.name} has {what}: {cloud.source}"


def _fault(client: str, wanted: str) -> Fault:
    if client.endswith("SSL") != wanted.endswith("SSL"):
        return Fault.TLS_TO_PLAINTEXT if client.endswith("SSL") else Fault.PLAINTEXT_TO_TLS
    return Fault.LOGIN_NEEDED if wanted.startswith("SASL_") else Fault.LOGIN_NOT_OFFERED
