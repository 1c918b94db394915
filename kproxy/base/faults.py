"""The name of each cause. `kproxy doctor`, `kproxy explain` and `kproxy lint` use them, in their JSON too."""

from __future__ import annotations

from enum import StrEnum


class Fault(StrEnum):
    """One cause of a failing connection."""

    # The advertised address
    NAME_NOT_RESOLVED = "name-not-resolved"  # the name means nothing on the client's machine
    NAME_RESOLVES_WRONGLY = "name-resolves-wrongly"  # it means another machine, or another network's address
    DNS_SILENT = "dns-silent"  # the resolver does not answer
    LOOPBACK_ADVERTISED = "loopback-advertised"  # localhost or 127.0.0.1: each client's own machine
    WILDCARD_ADVERTISED = "wildcard-advertised"  # 0.0.0.0 or [::]
    CONTAINER_NAME_ADVERTISED = "container-name-advertised"  # a container's id or service name
    KUBERNETES_NAME_ADVERTISED = "kubernetes-name-advertised"  # *.svc.cluster.local, pod names
    PRIVATE_ADDRESS_ADVERTISED = "private-address-advertised"  # RFC 1918 and the like, from outside
    WRONG_LISTENER = "wrong-listener"  # the broker answers with the address of a listener that the client cannot use
    SAME_ADDRESS_TWICE = "same-address-twice"  # several brokers advertise one address
    SHORT_NAME_ADVERTISED = "short-name-advertised"  # no dot: a machine's name, a container's, or a typo
    HOST_GATEWAY = "host-gateway"  # host.docker.internal, where Docker does not define it
    ADDRESS_FORM = "address-form"  # a scheme, a missing port or an empty host in an address
    # The network
    PORT_CLOSED = "port-closed"  # connection refused
    FILTERED = "filtered"  # no answer to the connection's first packet
    NO_ROUTE = "no-route"  # the VPN is down, or IPv6 on a machine without it
    IPV6_ONLY = "ipv6-only"
    SILENT = "silent"  # accepts the connection, and answers nothing
    CLOSED = "closed"  # accepts the connection, and closes it without an answer
    HOP_FAILED = "hop-failed"  # a proxy or SSH server of --via
    FORWARD_ENDED = "forward-ended"  # a port-forward or tunnel that led to the broker does not any more
    KPROXY_NEEDED = "kproxy-needed"  # kproxy reaches the brokers by hops or maps, which no client can use
    PROXY_LOOP = "proxy-loop"  # the address is kproxy's own listener
    TOO_MANY_FILES = "too-many-files"
    NETWORK_REFUSED = "network-refused"  # a service that refuses the client's network or IP address
    # The server that answers
    NOT_KAFKA = "not-kafka"  # HTTP, SSH, SOCKS, the PROXY protocol, or nonsense
    WRONG_NODE = "wrong-node"  # another broker of the same cluster
    WRONG_CLUSTER = "wrong-cluster"
    MIXED_CLUSTERS = "mixed-clusters"  # one address leads to several clusters
    MIXED_BOOTSTRAP = "mixed-bootstrap"  # bootstrap servers of different clusters
    MIXING_LOAD_BALANCER = "mixing-load-balancer"  # one address leads to several brokers
    BROKER_MISSING = "broker-missing"  # a node of the cluster is not in the metadata
    NO_LEADER = "no-leader"
    NOT_ENOUGH_REPLICAS = "not-enough-replicas"  # in sync, for acks=all
    NO_CONTROLLER = "no-controller"
    NO_COORDINATOR = "no-coordinator"
    TOPIC_UNKNOWN = "topic-unknown"
    CONTROLLER_PORT = "controller-port"  # a controller's listener, which has no answers for clients
    PROXY_TOO_OLD = "proxy-too-old"  # another Kafka proxy that does not know a version
    # TLS
    TLS_TO_PLAINTEXT = "tls-to-plaintext"  # the client speaks TLS, the listener does not
    PLAINTEXT_TO_TLS = "plaintext-to-tls"  # the listener speaks TLS, the client does not
    CERTIFICATE_NAME = "certificate-name"
    CERTIFICATE_EXPIRED = "certificate-expired"
    CERTIFICATE_NOT_YET_VALID = "certificate-not-yet-valid"
    CERTIFICATE_UNTRUSTED = "certificate-untrusted"
    CLIENT_CERTIFICATE_MISSING = "client-certificate-missing"
    CLIENT_CERTIFICATE_REFUSED = "client-certificate-refused"
    TLS_VERSION = "tls-version"  # no version or cipher suite in common
    TLS_FAILED = "tls-failed"  # any other failure of the handshake
    TLS_INSPECTION = "tls-inspection"  # a company's proxy ends TLS connections
    # Login and rights
    LOGIN_NEEDED = "login-needed"  # the listener answers after a SASL login only
    LOGIN_NOT_OFFERED = "login-not-offered"  # the listener has no SASL
    SASL_MECHANISM = "sasl-mechanism"  # the broker has not enabled it
    CREDENTIALS_REFUSED = "credentials-refused"
    CREDENTIALS_UNREADABLE = "credentials-unreadable"  # a file, a command, a token endpoint on the client's side
    KERBEROS = "kerberos"
    NOT_AUTHORIZED = "not-authorized"  # an ACL
    CLOCK = "clock"  # one machine's clock is wrong, where it matters
    JAAS = "jaas"  # sasl.jaas.config or a JAAS file cannot be used
    LIBRARY_LACKS_FEATURE = "library-lacks-feature"  # built or installed without TLS, SASL or a codec
    # Versions and limits
    BROKER_TOO_OLD = "broker-too-old"  # for the client in use
    BROKER_TOO_NEW = "broker-too-new"
    CLIENT_TOO_OLD = "client-too-old"
    OPTION_REMOVED = "option-removed"  # an option or setting that Kafka no longer has
    FRAME_SIZE = "frame-size"  # a size that is another protocol's first bytes, or above a limit
    RECORD_TOO_LARGE = "record-too-large"
    # Faults that only a proxy observes
    NODE_UNREACHABLE = "node-unreachable"  # kproxy's last try to reach a broker failed
    CLIENT_NOT_KAFKA = (
        "client-not-kafka"  # a client of HTTP, SSH, SOCKS or the PROXY protocol connects to kproxy's Kafka port
    )
    CLIENT_BLOCKED = "client-blocked"  # a client received kproxy's port of a node, and does not connect to it
    ASKS_AGAIN = "asks-again"  # a client asks for metadata again and again
    SLOW_NODE = "slow-node"
    CONNECTION_LEAK = "connection-leak"
    # Others
    CONFIGURATION = "configuration"  # a mistake in a file or flag, which the message itself names
    CONNECTOR_MISSING = "connector-missing"  # Spark has no Kafka connector
    OVERLOADED = "overloaded"  # overload: too few brokers, disks or threads
    LISTENER_CONFIGURATION = "listener-configuration"  # a broker does not start because of its listeners
    BROKER_STORAGE = "broker-storage"  # the data directory is not formatted, or belongs to another cluster or node
    KRAFT_CONFIGURATION = "kraft-configuration"  # node ids, roles and voters contradict each other
    GROUP = "group"  # consumer groups: rebalances, sessions, fenced members
    TRANSACTION = "transaction"  # a producer's epoch, sequence or transaction
    NOT_ABOUT_REACHING_KAFKA = "not-about-reaching-kafka"  # a full disk, a schema, a database: it is named, no more
    KPROXY = "kproxy"  # kproxy's own message; the remedy of its table


def fault_set(names: str) -> frozenset[Fault]:
    """Return the faults with these names, between which are spaces."""
    return frozenset(map(Fault, names.split()))


# Faults that the address in a message shows, and not its words.
BY_ADDRESS = fault_set(
    """
    name-resolves-wrongly loopback-advertised wildcard-advertised container-name-advertised
    kubernetes-name-advertised private-address-advertised short-name-advertised host-gateway
    """
)
