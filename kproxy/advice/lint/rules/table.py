"""The table of rules: id, severity, reason, and the fault in the table of remedies (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kproxy.advice.lint.findings import LintDiagnostic
from kproxy.advice.lint.source import Edit, SourceLocation
from kproxy.advice.lint.value import ConfigValue
from kproxy.base.diagnostic import Severity
from kproxy.base.faults import Fault


@dataclass(frozen=True, slots=True)
class LintRule:
    """One kind of mistake. `why` is one or two sentences for the user."""

    id: str
    severity: Severity
    fault: Fault
    why: str


# A rule: its id, severity and fault, and the reason for the user, on the same line or on the next one.
_TABLE = """
# The file
syntax error CONFIGURATION: The program that reads the file reads nothing after this.
duplicate-key warning CONFIGURATION: Only one of the two values counts, and it may be the wrong one.
byte-order-mark warning CONFIGURATION: Java then reads a wrong name for the first key of the file.

# Listeners
listener-syntax error LISTENER_CONFIGURATION: An entry is NAME://HOST:PORT. The broker does not start.
advertised-wildcard error WILDCARD_ADVERTISED:
    A client cannot connect to a wildcard address. A broker that would advertise 0.0.0.0 does not start.
advertised-unknown-listener error LISTENER_CONFIGURATION:
    A broker advertises only what it listens on. It does not start.
canonical-host-name note LISTENER_CONFIGURATION:
    The broker advertises the name that the machine has for itself. Clients elsewhere must resolve it.
protocol-map-missing error LISTENER_CONFIGURATION:
    A listener with a name of its own needs a protocol. The broker does not start.
protocol-unknown error LISTENER_CONFIGURATION: Kafka supports PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL.
duplicate-port error LISTENER_CONFIGURATION:
    Each listener needs a port of its own, except one for IPv4 and one for IPv6. The broker does not start.
duplicate-listener-name error LISTENER_CONFIGURATION: Each listener needs a name of its own. The broker does not start.
inter-broker-unknown error LISTENER_CONFIGURATION:
    Brokers connect to one another through an advertised listener. The broker does not start.
inter-broker-missing error LISTENER_CONFIGURATION:
    Without inter.broker.listener.name, brokers use the listener called PLAINTEXT. The broker does not start.
inter-broker-twice error LISTENER_CONFIGURATION: Kafka allows only one of the two settings. The broker does not start.
removed-setting warning LISTENER_CONFIGURATION: Kafka ignores this setting since version 3.0.
same-address-twice error SAME_ADDRESS_TWICE:
    A client cannot tell the brokers apart: its requests reach one of them only.

# KRaft
process-roles error LISTENER_CONFIGURATION: A node is a broker, a controller, or both.
node-id-missing error LISTENER_CONFIGURATION: In KRaft, each node needs an id. It does not start.
quorum-missing error LISTENER_CONFIGURATION: In KRaft, each node must know the controllers. It does not start.
controller-names-missing error LISTENER_CONFIGURATION:
    In KRaft, each node must know which listener is the controllers'. It does not start.
controller-listener-missing error LISTENER_CONFIGURATION:
    A controller needs a listener that controller.listener.names has. It does not start.
controller-advertised error LISTENER_CONFIGURATION:
    Only controllers use this listener. A broker before Kafka 3.9 does not start, a newer one ignores it.
controller-on-broker error LISTENER_CONFIGURATION:
    A node that is only a broker has no controller listener. It does not start.
broker-listener-on-controller error LISTENER_CONFIGURATION:
    A node that is only a controller has no other listeners. It does not start.
voter-missing error LISTENER_CONFIGURATION: Each controller is one of the voters. It does not start.
voter-broker error LISTENER_CONFIGURATION: A node that is only a broker must not be a voter. It does not start.
voter-address error NO_CONTROLLER: Nodes look for the controller at this address and do not find it.
quorum-differs error NO_CONTROLLER: All nodes of a cluster need the same voters.
duplicate-node-id error BROKER_MISSING: Each node of a cluster needs an id of its own.
cluster-id-differs error WRONG_CLUSTER: All nodes of a cluster need the same CLUSTER_ID.
zookeeper-on-kraft error CONFIGURATION: Kafka without ZooKeeper has no use for this setting.
replication-factor error GROUP:
    Kafka cannot create this internal topic before it has as many brokers: consumer groups or transactions hang.

# Containers
container-name-advertised warning CONTAINER_NAME_ADVERTISED:
    The port is published for clients outside, but the name exists only in the containers' network.
loopback-advertised error LOOPBACK_ADVERTISED: In another container, localhost is that container itself.
published-port-differs error PORT_CLOSED:
    Clients outside connect to the advertised port, where the container is not published.
port-not-published warning PORT_CLOSED:
    The address belongs to the host, but no port of the container is published there.
bound-to-loopback error PORT_CLOSED: On localhost, a container accepts no connection from outside of it.
variable-spelling error CONFIGURATION: The image does not turn this variable into the property.
variable-missing error CONFIGURATION: The container ends at once without it.
variable-refused error CONFIGURATION: The container ends at once with it.
image-defaults-lost error CONFIGURATION: As soon as one KAFKA_ variable is set, this image has no default for any other.
plaintext-not-allowed error CONFIGURATION:
    Bitnami's images before Kafka 3.5 refuse to start with a plaintext listener otherwise.

# Security
sasl-mechanism-missing error SASL_MECHANISM:
    Without sasl.enabled.mechanisms, a listener with SASL has only GSSAPI, which needs Kerberos.
sasl-jaas-missing error LOGIN_NEEDED: A listener with SASL needs a JAAS entry. The broker does not start.
inter-broker-mechanism error SASL_MECHANISM:
    Brokers must log in with a mechanism that their own listener has. The broker does not start.
ssl-keystore-missing error TLS_FAILED: A listener with TLS needs a certificate. The broker does not start.

# Clients
bootstrap-syntax error CONFIGURATION: A bootstrap server is HOST:PORT.
bootstrap-loopback error LOOPBACK_ADVERTISED: In a container, localhost is the container itself, and no broker is there.
bootstrap-port error PORT_CLOSED: Nothing listens for clients at this port.
bootstrap-network error NAME_NOT_RESOLVED: The two containers have no network in common.
bootstrap-controller error WRONG_LISTENER: A controller's listener does not serve clients.
client-protocol error PLAINTEXT_TO_TLS: Client and listener must speak the same protocol.
client-protocol-unknown error CONFIGURATION: Kafka supports PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL.
client-mechanism error SASL_MECHANISM: The listener has not enabled this mechanism.

# Operators
operator-listener-name error LISTENER_CONFIGURATION: The operator refuses this name.
operator-listener-port error LISTENER_CONFIGURATION: The operator refuses this port.
operator-listener-type error LISTENER_CONFIGURATION: The operator has no such type.
operator-listener-tls error TLS_TO_PLAINTEXT:
    This type routes by the name in the TLS handshake: it does not work without TLS.
operator-host-missing error NAME_NOT_RESOLVED: The operator cannot know the name by which clients reach this listener.
operator-setting-ignored warning CONFIGURATION: The operator makes this setting itself, and ignores yours.
operator-advertised error LOOPBACK_ADVERTISED: Clients cannot reach a broker at this address.
operator-authentication error CLIENT_CERTIFICATE_MISSING: A login with client certificates needs TLS on the listener.
operator-version warning CONFIGURATION: Newer versions of the operator refuse this.
"""


def _read_table() -> Iterator[LintRule]:
    rows = re.sub(r"\n +", " ", re.sub(r"(?m)^#.*\n", "", _TABLE)).split("\n")
    for head, _, why in (row.partition(": ") for row in rows if row):
        id_, severity, fault = head.split()
        yield LintRule(id_, Severity(severity), Fault[fault], why)


RULES: Mapping[str, LintRule] = {rule.id: rule for rule in _read_table()}


class Named(Protocol):
    """The owner of a mistake: a broker, a client, a cluster or a file."""

    @property
    def name(self) -> str: ...


def finding(
    rule: str,
    location: ConfigValue | SourceLocation,
    owner: Named,
    text: str,
    edits: Sequence[Edit] | None = None,
    fix: str | Iterable[str] = (),
    *,
    severity: Severity | None = None,
    fault: Fault | None = None,
    why: str = "",
) -> LintDiagnostic:
    """Create a finding of a rule. `fix` has lines that a person must complete; edits replace them."""
    lint_rule = RULES[rule]
    return LintDiagnostic(
        rule=rule,
        severity=severity or lint_rule.severity,
        location=location.location if isinstance(location, ConfigValue) else location,
        subject=owner.name,
        text=text,
        why=why or lint_rule.why,
        edits=tuple(edits or ()),
        fix=() if edits or not fix else (fix,) if isinstance(fix, str) else tuple(fix),
        fault=fault or lint_rule.fault,
    )


def combine(*groups: Sequence[Edit] | None) -> list[Edit] | None:
    """Return all edits of the groups, or None if one group cannot be written."""
    edits: list[Edit] = []
    for group in groups:
        if group is None:
            return None
        edits += group
    return edits
