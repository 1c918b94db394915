"""The table of rules: the id of each, how bad it is, why, and the cause in the table of remedies (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kproxy.advice.lint.findings import Finding, Severity
from kproxy.advice.lint.source import Edit, Place
from kproxy.advice.lint.value import Value
from kproxy.advice.remedies.faults import Fault

_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE
_LISTENERS = Fault.LISTENER_CONFIGURATION


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of mistake. `why` is one or two sentences for the user."""

    id: str
    severity: Severity
    fault: Fault
    why: str


_ALL = (
    # The file
    Rule("syntax", _E, Fault.CONFIGURATION, "The program that reads the file reads nothing after this."),
    Rule("duplicate-key", _W, Fault.CONFIGURATION, "Only one of the two counts, and it may be the wrong one."),
    Rule("byte-order-mark", _W, Fault.CONFIGURATION, "Java does not know the first key of the file then."),
    # Listeners
    Rule("listener-syntax", _E, _LISTENERS, "An entry is NAME://HOST:PORT. The broker does not start."),
    Rule("advertised-wildcard", _E, Fault.WILDCARD_ADVERTISED,
         "A client cannot connect to a wildcard address. A broker that would advertise 0.0.0.0 does not start."),
    Rule("advertised-unknown-listener", _E, _LISTENERS,
         "A broker advertises only what it listens on. It does not start."),
    Rule("canonical-host-name", _N, _LISTENERS,
         "The broker advertises the name that the machine has for itself. Clients elsewhere must resolve it."),
    Rule("protocol-map-missing", _E, _LISTENERS,
         "A listener with a name of its own needs a protocol. The broker does not start."),
    Rule("protocol-unknown", _E, _LISTENERS, "Kafka knows PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL."),
    Rule("duplicate-port", _E, _LISTENERS,
         "Each listener needs a port of its own, except one for IPv4 and one for IPv6. The broker does not start."),
    Rule("duplicate-listener-name", _E, _LISTENERS,
         "Each listener needs a name of its own. The broker does not start."),
    Rule("inter-broker-unknown", _E, _LISTENERS,
         "Brokers connect to one another through an advertised listener. The broker does not start."),
    Rule("inter-broker-missing", _E, _LISTENERS,
         "Without inter.broker.listener.name, brokers use the listener called PLAINTEXT. The broker does not start."),
    Rule("inter-broker-twice", _E, _LISTENERS, "Kafka allows only one of the two. The broker does not start."),
    Rule("removed-setting", _W, _LISTENERS, "Kafka ignores this setting since version 3.0."),
    Rule("same-address-twice", _E, Fault.SAME_ADDRESS_TWICE,
         "A client cannot tell the brokers apart: its requests reach one of them only."),
    # KRaft
    Rule("process-roles", _E, _LISTENERS, "A node is a broker, a controller, or both."),
    Rule("node-id-missing", _E, _LISTENERS, "In KRaft, each node needs an id. It does not start."),
    Rule("quorum-missing", _E, _LISTENERS, "In KRaft, each node must know the controllers. It does not start."),
    Rule("controller-names-missing", _E, _LISTENERS,
         "In KRaft, each node must know which listener is the controllers'. It does not start."),
    Rule("controller-listener-missing", _E, _LISTENERS,
         "A controller needs a listener that controller.listener.names has. It does not start."),
    Rule("controller-advertised", _E, _LISTENERS,
         "Only controllers use this listener. A broker before Kafka 3.9 does not start, a newer one ignores it."),
    Rule("controller-on-broker", _E, _LISTENERS,
         "A node that is only a broker has no controller listener. It does not start."),
    Rule("broker-listener-on-controller", _E, _LISTENERS,
         "A node that is only a controller has no other listeners. It does not start."),
    Rule("voter-missing", _E, _LISTENERS, "Each controller is one of the voters. It does not start."),
    Rule("voter-broker", _E, _LISTENERS, "A node that is only a broker is no voter. It does not start."),
    Rule("voter-address", _E, Fault.NO_CONTROLLER, "Nodes look for the controller at this address and do not find it."),
    Rule("quorum-differs", _E, Fault.NO_CONTROLLER, "All nodes of a cluster need the same voters."),
    Rule("duplicate-node-id", _E, Fault.BROKER_MISSING, "Each node of a cluster needs an id of its own."),
    Rule("cluster-id-differs", _E, Fault.WRONG_CLUSTER, "All nodes of a cluster need the same CLUSTER_ID."),
    Rule("zookeeper-on-kraft", _E, Fault.CONFIGURATION, "Kafka without ZooKeeper has no use for this setting."),
    Rule("replication-factor", _E, Fault.GROUP,
         "Kafka cannot create this internal topic before it has as many brokers: consumer groups or transactions "
         "hang."),
    # Containers
    Rule("container-name-advertised", _W, Fault.CONTAINER_NAME_ADVERTISED,
         "The port is published for clients outside, but the name exists only in the containers' network."),
    Rule("loopback-advertised", _E, Fault.LOOPBACK_ADVERTISED,
         "In another container, localhost is that container itself."),
    Rule("published-port-differs", _E, Fault.PORT_CLOSED,
         "Clients outside connect to the advertised port, and there the container is not."),
    Rule("port-not-published", _W, Fault.PORT_CLOSED,
         "The address is one of the host, but no port of the container is published there."),
    Rule("bound-to-loopback", _E, Fault.PORT_CLOSED, "A container's localhost accepts nobody from outside of it."),
    Rule("variable-spelling", _E, Fault.CONFIGURATION, "The image makes no such property of this variable."),
    Rule("variable-missing", _E, Fault.CONFIGURATION, "The container ends at once without it."),
    Rule("variable-refused", _E, Fault.CONFIGURATION, "The container ends at once with it."),
    Rule("image-defaults-lost", _E, Fault.CONFIGURATION,
         "As soon as one KAFKA_ variable is set, this image has no default for any other."),
    Rule("plaintext-not-allowed", _E, Fault.CONFIGURATION,
         "Bitnami's images before Kafka 3.5 refuse to start with a plaintext listener otherwise."),
    # Security
    Rule("sasl-mechanism-missing", _E, Fault.SASL_MECHANISM,
         "A listener with SASL has only GSSAPI where nothing is said, and that needs Kerberos."),
    Rule("sasl-jaas-missing", _E, Fault.LOGIN_NEEDED,
         "A listener with SASL needs a JAAS entry. The broker does not start."),
    Rule("inter-broker-mechanism", _E, Fault.SASL_MECHANISM,
         "Brokers must log in with a mechanism that their own listener has. The broker does not start."),
    Rule("ssl-keystore-missing", _E, Fault.TLS_FAILED,
         "A listener with TLS needs a certificate. The broker does not start."),
    # Clients
    Rule("bootstrap-syntax", _E, Fault.CONFIGURATION, "A bootstrap server is HOST:PORT."),
    Rule("bootstrap-loopback", _E, Fault.LOOPBACK_ADVERTISED,
         "In a container, localhost is the container itself, and no broker is there."),
    Rule("bootstrap-port", _E, Fault.PORT_CLOSED, "Nothing listens for clients at this port."),
    Rule("bootstrap-network", _E, Fault.NAME_NOT_RESOLVED, "The two containers have no network in common."),
    Rule("bootstrap-controller", _E, Fault.WRONG_LISTENER, "A controller's listener does not serve clients."),
    Rule("client-protocol", _E, Fault.PLAINTEXT_TO_TLS, "Client and listener must speak the same protocol."),
    Rule("client-protocol-unknown", _E, Fault.CONFIGURATION,
         "Kafka knows PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL."),
    Rule("client-mechanism", _E, Fault.SASL_MECHANISM, "The listener has not enabled this mechanism."),
    # Operators
    Rule("operator-listener-name", _E, _LISTENERS, "The operator refuses this name."),
    Rule("operator-listener-port", _E, _LISTENERS, "The operator refuses this port."),
    Rule("operator-listener-type", _E, _LISTENERS, "The operator has no such type."),
    Rule("operator-listener-tls", _E, Fault.TLS_TO_PLAINTEXT,
         "This type routes by the name in the TLS handshake: it does not work without TLS."),
    Rule("operator-host-missing", _E, Fault.NAME_NOT_RESOLVED,
         "The operator cannot know the name by which clients reach this listener."),
    Rule("operator-setting-ignored", _W, Fault.CONFIGURATION,
         "The operator makes this setting itself, and ignores yours."),
    Rule("operator-advertised", _E, Fault.LOOPBACK_ADVERTISED, "Clients cannot reach a broker at this address."),
    Rule("operator-authentication", _E, Fault.CLIENT_CERTIFICATE_MISSING,
         "A login with client certificates needs TLS on the listener."),
    Rule("operator-version", _W, Fault.CONFIGURATION, "Newer versions of the operator refuse this."),
)  # fmt: skip
RULES: Mapping[str, Rule] = {rule.id: rule for rule in _ALL}


def found(
    rule: str,
    at: Value | Place,
    subject: str,
    text: str,
    edits: Sequence[Edit] | None = None,
    suggestion: str | Iterable[str] = (),
    *,
    severity: Severity | None = None,
    fault: Fault | None = None,
    why: str = "",
) -> Finding:
    """A finding of a rule."""
    known = RULES[rule]
    return Finding(
        rule=rule,
        severity=severity or known.severity,
        place=at.place if isinstance(at, Value) else at,
        subject=subject,
        text=text,
        why=why or known.why,
        edits=tuple(edits or ()),
        suggestion=() if edits else (suggestion,) if isinstance(suggestion, str) else tuple(suggestion),
        fault=(fault or known.fault).value,
    )


def both(*groups: Sequence[Edit] | None) -> list[Edit] | None:
    """All edits, or none at all if one of the groups cannot be written."""
    edits: list[Edit] = []
    for group in groups:
        if group is None:
            return None
        edits += group
    return edits


def at_entry(value: Value, index: int) -> Place:
    """Where an entry of a list is written, for the column."""
    spans = value._spans()
    return value.place if spans is None else replace(value.place, index=spans[index][0])
