"""The table of rules: id, severity, reason, and the fault in the table of remedies (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kproxy.advice.lint.findings import LintDiagnostic
from kproxy.advice.lint.source import Edit, SourceLocation
from kproxy.advice.lint.value import ConfigValue
from kproxy.base.diagnostic import Severity
from kproxy.base.faults import Fault

_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE
_LISTENERS = Fault.LISTENER_CONFIGURATION


@dataclass(frozen=True, slots=True)
class LintRule:
    """One kind of mistake. `why` is one or two sentences for the user."""

    id: str
    severity: Severity
    fault: Fault
    why: str


_ALL = (
    # The file
    LintRule("syntax", _E, Fault.CONFIGURATION, "The program that reads the file reads nothing after this."),
    LintRule(
        "duplicate-key", _W, Fault.CONFIGURATION, "Only one of the two values counts, and it may be the wrong one."
    ),
    LintRule("byte-order-mark", _W, Fault.CONFIGURATION, "Java then reads a wrong name for the first key of the file."),
    # Listeners
    LintRule("listener-syntax", _E, _LISTENERS, "An entry is NAME://HOST:PORT. The broker does not start."),
    LintRule(
        "advertised-wildcard",
        _E,
        Fault.WILDCARD_ADVERTISED,
        "A client cannot connect to a wildcard address. A broker that would advertise 0.0.0.0 does not start.",
    ),
    LintRule(
        "advertised-unknown-listener", _E, _LISTENERS, "A broker advertises only what it listens on. It does not start."
    ),
    LintRule(
        "canonical-host-name",
        _N,
        _LISTENERS,
        "The broker advertises the name that the machine has for itself. Clients elsewhere must resolve it.",
    ),
    LintRule(
        "protocol-map-missing",
        _E,
        _LISTENERS,
        "A listener with a name of its own needs a protocol. The broker does not start.",
    ),
    LintRule("protocol-unknown", _E, _LISTENERS, "Kafka supports PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL."),
    LintRule(
        "duplicate-port",
        _E,
        _LISTENERS,
        "Each listener needs a port of its own, except one for IPv4 and one for IPv6. The broker does not start.",
    ),
    LintRule(
        "duplicate-listener-name", _E, _LISTENERS, "Each listener needs a name of its own. The broker does not start."
    ),
    LintRule(
        "inter-broker-unknown",
        _E,
        _LISTENERS,
        "Brokers connect to one another through an advertised listener. The broker does not start.",
    ),
    LintRule(
        "inter-broker-missing",
        _E,
        _LISTENERS,
        "Without inter.broker.listener.name, brokers use the listener called PLAINTEXT. The broker does not start.",
    ),
    LintRule(
        "inter-broker-twice", _E, _LISTENERS, "Kafka allows only one of the two settings. The broker does not start."
    ),
    LintRule("removed-setting", _W, _LISTENERS, "Kafka ignores this setting since version 3.0."),
    LintRule(
        "same-address-twice",
        _E,
        Fault.SAME_ADDRESS_TWICE,
        "A client cannot tell the brokers apart: its requests reach one of them only.",
    ),
    # KRaft
    LintRule("process-roles", _E, _LISTENERS, "A node is a broker, a controller, or both."),
    LintRule("node-id-missing", _E, _LISTENERS, "In KRaft, each node needs an id. It does not start."),
    LintRule("quorum-missing", _E, _LISTENERS, "In KRaft, each node must know the controllers. It does not start."),
    LintRule(
        "controller-names-missing",
        _E,
        _LISTENERS,
        "In KRaft, each node must know which listener is the controllers'. It does not start.",
    ),
    LintRule(
        "controller-listener-missing",
        _E,
        _LISTENERS,
        "A controller needs a listener that controller.listener.names has. It does not start.",
    ),
    LintRule(
        "controller-advertised",
        _E,
        _LISTENERS,
        "Only controllers use this listener. A broker before Kafka 3.9 does not start, a newer one ignores it.",
    ),
    LintRule(
        "controller-on-broker",
        _E,
        _LISTENERS,
        "A node that is only a broker has no controller listener. It does not start.",
    ),
    LintRule(
        "broker-listener-on-controller",
        _E,
        _LISTENERS,
        "A node that is only a controller has no other listeners. It does not start.",
    ),
    LintRule("voter-missing", _E, _LISTENERS, "Each controller is one of the voters. It does not start."),
    LintRule("voter-broker", _E, _LISTENERS, "A node that is only a broker must not be a voter. It does not start."),
    LintRule(
        "voter-address", _E, Fault.NO_CONTROLLER, "Nodes look for the controller at this address and do not find it."
    ),
    LintRule("quorum-differs", _E, Fault.NO_CONTROLLER, "All nodes of a cluster need the same voters."),
    LintRule("duplicate-node-id", _E, Fault.BROKER_MISSING, "Each node of a cluster needs an id of its own."),
    LintRule("cluster-id-differs", _E, Fault.WRONG_CLUSTER, "All nodes of a cluster need the same CLUSTER_ID."),
    LintRule("zookeeper-on-kraft", _E, Fault.CONFIGURATION, "Kafka without ZooKeeper has no use for this setting."),
    LintRule(
        "replication-factor",
        _E,
        Fault.GROUP,
        "Kafka cannot create this internal topic before it has as many brokers: consumer groups or transactions hang.",
    ),
    # Containers
    LintRule(
        "container-name-advertised",
        _W,
        Fault.CONTAINER_NAME_ADVERTISED,
        "The port is published for clients outside, but the name exists only in the containers' network.",
    ),
    LintRule(
        "loopback-advertised",
        _E,
        Fault.LOOPBACK_ADVERTISED,
        "In another container, localhost is that container itself.",
    ),
    LintRule(
        "published-port-differs",
        _E,
        Fault.PORT_CLOSED,
        "Clients outside connect to the advertised port, where the container is not published.",
    ),
    LintRule(
        "port-not-published",
        _W,
        Fault.PORT_CLOSED,
        "The address belongs to the host, but no port of the container is published there.",
    ),
    LintRule(
        "bound-to-loopback",
        _E,
        Fault.PORT_CLOSED,
        "On localhost, a container accepts no connection from outside of it.",
    ),
    LintRule("variable-spelling", _E, Fault.CONFIGURATION, "The image does not turn this variable into the property."),
    LintRule("variable-missing", _E, Fault.CONFIGURATION, "The container ends at once without it."),
    LintRule("variable-refused", _E, Fault.CONFIGURATION, "The container ends at once with it."),
    LintRule(
        "image-defaults-lost",
        _E,
        Fault.CONFIGURATION,
        "As soon as one KAFKA_ variable is set, this image has no default for any other.",
    ),
    LintRule(
        "plaintext-not-allowed",
        _E,
        Fault.CONFIGURATION,
        "Bitnami's images before Kafka 3.5 refuse to start with a plaintext listener otherwise.",
    ),
    # Security
    LintRule(
        "sasl-mechanism-missing",
        _E,
        Fault.SASL_MECHANISM,
        "Without sasl.enabled.mechanisms, a listener with SASL has only GSSAPI, which needs Kerberos.",
    ),
    LintRule(
        "sasl-jaas-missing",
        _E,
        Fault.LOGIN_NEEDED,
        "A listener with SASL needs a JAAS entry. The broker does not start.",
    ),
    LintRule(
        "inter-broker-mechanism",
        _E,
        Fault.SASL_MECHANISM,
        "Brokers must log in with a mechanism that their own listener has. The broker does not start.",
    ),
    LintRule(
        "ssl-keystore-missing",
        _E,
        Fault.TLS_FAILED,
        "A listener with TLS needs a certificate. The broker does not start.",
    ),
    # Clients
    LintRule("bootstrap-syntax", _E, Fault.CONFIGURATION, "A bootstrap server is HOST:PORT."),
    LintRule(
        "bootstrap-loopback",
        _E,
        Fault.LOOPBACK_ADVERTISED,
        "In a container, localhost is the container itself, and no broker is there.",
    ),
    LintRule("bootstrap-port", _E, Fault.PORT_CLOSED, "Nothing listens for clients at this port."),
    LintRule("bootstrap-network", _E, Fault.NAME_NOT_RESOLVED, "The two containers have no network in common."),
    LintRule("bootstrap-controller", _E, Fault.WRONG_LISTENER, "A controller's listener does not serve clients."),
    LintRule("client-protocol", _E, Fault.PLAINTEXT_TO_TLS, "Client and listener must speak the same protocol."),
    LintRule(
        "client-protocol-unknown",
        _E,
        Fault.CONFIGURATION,
        "Kafka supports PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL.",
    ),
    LintRule("client-mechanism", _E, Fault.SASL_MECHANISM, "The listener has not enabled this mechanism."),
    # Operators
    LintRule("operator-listener-name", _E, _LISTENERS, "The operator refuses this name."),
    LintRule("operator-listener-port", _E, _LISTENERS, "The operator refuses this port."),
    LintRule("operator-listener-type", _E, _LISTENERS, "The operator has no such type."),
    LintRule(
        "operator-listener-tls",
        _E,
        Fault.TLS_TO_PLAINTEXT,
        "This type routes by the name in the TLS handshake: it does not work without TLS.",
    ),
    LintRule(
        "operator-host-missing",
        _E,
        Fault.NAME_NOT_RESOLVED,
        "The operator cannot know the name by which clients reach this listener.",
    ),
    LintRule(
        "operator-setting-ignored",
        _W,
        Fault.CONFIGURATION,
        "The operator makes this setting itself, and ignores yours.",
    ),
    LintRule("operator-advertised", _E, Fault.LOOPBACK_ADVERTISED, "Clients cannot reach a broker at this address."),
    LintRule(
        "operator-authentication",
        _E,
        Fault.CLIENT_CERTIFICATE_MISSING,
        "A login with client certificates needs TLS on the listener.",
    ),
    LintRule("operator-version", _W, Fault.CONFIGURATION, "Newer versions of the operator refuse this."),
)
RULES: Mapping[str, LintRule] = {rule.id: rule for rule in _ALL}


def new_finding(
    rule: str,
    location: ConfigValue | SourceLocation,
    subject: str,
    text: str,
    edits: Sequence[Edit] | None = None,
    suggestion: str | Iterable[str] = (),
    *,
    severity: Severity | None = None,
    fault: Fault | None = None,
    why: str = "",
) -> LintDiagnostic:
    """Create a finding of a rule."""
    lint_rule = RULES[rule]
    return LintDiagnostic(
        rule=rule,
        severity=severity or lint_rule.severity,
        location=location.location if isinstance(location, ConfigValue) else location,
        subject=subject,
        text=text,
        why=why or lint_rule.why,
        edits=tuple(edits or ()),
        fix=() if edits else (suggestion,) if isinstance(suggestion, str) else tuple(suggestion),
        fault=(fault or lint_rule.fault).value,
    )


def combine(*groups: Sequence[Edit] | None) -> list[Edit] | None:
    """Return all edits of the groups, or None if one group cannot be written."""
    edits: list[Edit] = []
    for group in groups:
        if group is None:
            return None
        edits += group
    return edits
