"""Faults of advertised addresses."""

from __future__ import annotations

from kproxy.advice.remedies.remedy import Remedy, SharedText, program_messages
from kproxy.base.faults import Fault

# Messages of clients that could not reach a broker, whatever the reason was.
NOT_ESTABLISHED = "Connection to node … could not be established. Node may not be available."
OLD_NOT_ESTABLISHED = "Connection to node … could not be established. Broker may not be available."
UNREACHED_JAVA = (
    "Bootstrap broker … disconnected",
    "Timed out waiting for a node assignment",
    "Failed to update metadata after … ms",
    "Topic … not present in metadata after … ms",
    "Timeout of …ms expired before the position for partition … could be determined",
    "Timeout of …ms expired before the last committed offset for partitions",
    "Expiring … record(s) for …:… ms has passed since batch creation",
    "Timeout expired while fetching topic metadata",
    "Timeout expired while trying to create topic",
    "Call(callName=…, deadlineMs=…) timed out at …",
)
UNREACHED_SPARK = (
    "Error in attempt … getting Kafka offsets",
    "terminated with exception: Timed out waiting for a node assignment",
    "terminated with exception: Timeout of …ms expired before the position for partition … could be determined",
)
UNREACHED_SARAMA = ("kafka: client has run out of available brokers to talk to",)
UNREACHED_PYTHON = ("KafkaTimeoutError: Unable to bootstrap from", "NoBrokersAvailable")
UNREACHED_AIOKAFKA = ("KafkaConnectionError: Unable to bootstrap from [",)

TABLE: tuple[Remedy, ...] = (
    Remedy(
        Fault.NAME_NOT_RESOLVED,
        "A broker's name cannot be resolved",
        "The client has reached one broker. This broker has sent the advertised addresses of all brokers, and the "
        "client's machine cannot resolve the name in one of them. A bootstrap server that is misspelt looks the same.",
        "`kcat -b BOOTSTRAP -L` shows the advertised names. `getent hosts NAME` on the client's machine prints nothing "
        "for this name.",
        "Run kproxy beside the client, and use kproxy as the client's bootstrap server. Or make the name known to the "
        "client (DNS, `/etc/hosts`). Or set `advertised.listeners` of the broker to a name that its clients can "
        "resolve.",
        program_messages(
            java=(
                "Couldn't resolve server … from bootstrap.servers as DNS resolution failed for",
                "No resolvable bootstrap urls given in bootstrap.servers",
                "Error connecting to node …",
                SharedText("java.net.UnknownHostException: …"),
                *UNREACHED_JAVA[1:],
            ),
            spark=UNREACHED_SPARK,
            librdkafka=(
                "Failed to resolve '…': …",
                "Local: Host resolution failure",
            ),
            kafka_python=("DNS lookup failed for …", "DNS Resolution failure", *UNREACHED_PYTHON),
            aiokafka=(
                *UNREACHED_AIOKAFKA,
                'Unable connect to "…": [Errno -2] Name or service not known',
                'Unable connect to "…": [Errno -5] No address associated with hostname',
                "Unable connect to node with id …: [Errno -2] Name or service not known",
                "Unable connect to node with id …: [Errno -5] No address associated with hostname",
                "Unable connect to node with id …: [Errno 8] nodename nor servname provided, or not known",
            ),
            kafkajs=("Connection error: getaddrinfo ENOTFOUND …", "Failed to connect: getaddrinfo ENOTFOUND …"),
            franz_go=(
                "unable to open connection to broker; addr: …, err: dial tcp: lookup …: no such host",
                "unable to dial: dial tcp: lookup …: no such host",
            ),
            sarama=(
                "Failed to connect to broker …: dial tcp: lookup …: no such host",
                "kafka: client has run out of available brokers to talk to: dial tcp: lookup …: no such host",
                *UNREACHED_SARAMA,
                SharedText("no such host"),
            ),
        ),
    ),
    Remedy(
        Fault.NAME_RESOLVES_WRONGLY,
        "A broker's name means another machine here",
        "The client's machine resolves the advertised name, but to an address that is not the broker's: an address of "
        "another network, an old one, or its own.",
        "Compare `getent hosts NAME` on the client's machine and on the broker.",
        "Correct the name in DNS or in `/etc/hosts`. Or run kproxy with the broker's real address in `--map`.",
        program_messages(
            java=(NOT_ESTABLISHED, UNREACHED_JAVA[0]),
            librdkafka=("Connect to … failed: Connection refused",),
            kafka_python=("unable to connect: …",),
        ),
    ),
    Remedy(
        Fault.DNS_SILENT,
        "The resolver does not answer",
        "The name server of the client's machine does not answer, so no name can be resolved for the moment.",
        "`getent hosts NAME` hangs, or fails with `Try again`.",
        "Check the VPN and `/etc/resolv.conf`. In Kubernetes, check that the pod may reach the cluster's DNS service.",
        program_messages(
            java=(SharedText("java.net.UnknownHostException: …: Temporary failure in name resolution"),),
            librdkafka=(
                "Failed to resolve '…': Temporary failure in name resolution",
                "Failed to resolve '…': Try again",
            ),
            kafka_python=("DNS lookup failed for …Temporary failure in name resolution",),
            aiokafka=(
                'Unable connect to "…": [Errno -3] Temporary failure in name resolution',
                "Unable connect to node with id …: [Errno -3] Temporary failure in name resolution",
            ),
            kafkajs=("Connection error: getaddrinfo EAI_AGAIN …", "Failed to connect: getaddrinfo EAI_AGAIN …"),
            franz_go=(
                "unable to dial: dial tcp: lookup …: i/o timeout",
                "unable to dial: dial tcp: lookup …: server misbehaving",
            ),
            sarama=(
                "Failed to connect to broker …: dial tcp: lookup …: i/o timeout",
                "Failed to connect to broker …: dial tcp: lookup …: server misbehaving",
            ),
        ),
    ),
    Remedy(
        Fault.LOOPBACK_ADVERTISED,
        "A broker advertises localhost",
        "The broker advertises `localhost` or 127.0.0.1. For each client, this is the client's own machine or "
        "container. It works only on the broker's own machine.",
        "`kcat -b BOOTSTRAP -L` shows `localhost` or 127.0.0.1, although the bootstrap server is another machine.",
        "Run kproxy beside the client. For good, set `advertised.listeners` of the broker to an address that the "
        "clients can reach; use one listener for each network from which clients come.",
        program_messages(
            java=(
                "Connection to node … (localhost/127.0.0.1:…) could not be established. Node may not be available.",
                "Connection to node … (/127.0.0.1:…) could not be established. Node may not be available.",
            ),
            librdkafka=(
                "localhost:…: Connect to ipv4#127.0.0.1:… failed: Connection refused",
                "localhost:…: Connect to ipv6#[::1]:… failed: Connection refused",
            ),
            kafka_python=("host=localhost, port=…: unable to connect",),
            aiokafka=("Unable connect to node with id …: [Errno 111] Connect call failed ('127.0.0.1', …)",),
            kafkajs=("Connection error: connect ECONNREFUSED 127.0.0.1:…",),
            franz_go=("unable to dial: dial tcp 127.0.0.1:…: connect: connection refused",),
            sarama=("Failed to connect to broker localhost:…: dial tcp 127.0.0.1:…: connect: connection refused",),
        ),
    ),
    Remedy(
        Fault.WILDCARD_ADVERTISED,
        "A broker advertises the wildcard address",
        'The broker advertises 0.0.0.0 or [::], which means "every interface" and is no address to connect to.',
        "`kcat -b BOOTSTRAP -L` shows 0.0.0.0. Kafka refuses to start with it, so an image's start script or a proxy "
        "has set it.",
        "Set `advertised.listeners` of the broker to a name or address of the broker. 0.0.0.0 belongs into `listeners`.",
        program_messages(
            java=("Connection to node … (/0.0.0.0:…) could not be established. Node may not be available.",),
            librdkafka=("0.0.0.0:…: Connect to ipv4#0.0.0.0:… failed: …",),
            kafka_python=("host=0.0.0.0, port=…: unable to connect",),
            broker=("advertised.listeners cannot use the nonroutable meta-address 0.0.0.0",),
        ),
    ),
    Remedy(
        Fault.CONTAINER_NAME_ADVERTISED,
        "A broker advertises a container's name",
        "The broker advertises the id or the service name of its container. Only containers of the same Docker network "
        "can resolve it.",
        "`kcat -b BOOTSTRAP -L` shows a name without a dot, such as `kafka`, `broker` or twelve hexadecimal digits.",
        "Run kproxy on the client's machine, with the published port as the bootstrap server. For good, give the broker "
        "a second listener for clients outside Docker, which advertises the host's name and the published port.",
        program_messages(
            java=("Error connecting to node …: …: Name or service not known",),
            librdkafka=("Failed to resolve '…': Name or service not known",),
            kafka_python=("DNS lookup failed for …",),
        ),
    ),
    Remedy(
        Fault.KUBERNETES_NAME_ADVERTISED,
        "A broker advertises a name of Kubernetes",
        "The broker advertises a name that only pods of its Kubernetes cluster can resolve.",
        "`kcat -b BOOTSTRAP -L` shows names that end with `.svc` or `.svc.cluster.local`, or names of pods.",
        "Forward one port for each broker (`kubectl port-forward`), and run kproxy with all forwarded ports as "
        "bootstrap servers. For good, give the cluster an external listener (NodePort, load balancer, Ingress).",
        program_messages(
            java=(
                "Error connecting to node ….svc.cluster.local:…",
                SharedText("java.net.UnknownHostException: ….svc.cluster.local"),
            ),
            librdkafka=("Failed to resolve '….svc.cluster.local:…': …", "Failed to resolve '….svc:…': …"),
            kafka_python=("DNS lookup failed for ….svc.cluster.local:…",),
            aiokafka=("Unable connect to node with id …: [Errno -2] Name or service not known",),
            kafkajs=("Connection error: getaddrinfo ENOTFOUND ….svc.cluster.local",),
            franz_go=("unable to dial: dial tcp: lookup ….svc.cluster.local…: no such host",),
            sarama=("Failed to connect to broker ….svc.cluster.local:…: dial tcp: lookup …: no such host",),
        ),
    ),
    Remedy(
        Fault.PRIVATE_ADDRESS_ADVERTISED,
        "A broker advertises a private address",
        "The broker advertises an address of its own private network (10.…, 172.16.… to 172.31.…, 192.168.…). The "
        "client is outside of this network.",
        "`kcat -b BOOTSTRAP -L` shows a private address, and a connection to this address gets no answer.",
        "Connect the VPN. Or run kproxy: with the reachable address of each broker as bootstrap servers, with `--map`, "
        "or with `--via` along an SSH server or proxy that reaches the network.",
        program_messages(
            java=(
                "Connection to node … (/10.…) could not be established. Node may not be available.",
                "Connection to node … (/172.…) could not be established. Node may not be available.",
                "Connection to node … (/192.168.…) could not be established. Node may not be available.",
            ),
            librdkafka=("Connection setup timed out in state CONNECT",),
            kafka_python=("Connection timed out",),
        ),
    ),
    Remedy(
        Fault.WRONG_LISTENER,
        "The broker answers with another listener's address",
        "A broker has an advertised address for each listener, and answers with that of the listener to which the "
        "client has connected. The client's port belongs to a listener for other clients. Or the leader of a partition "
        "lacks the listener.",
        "`kcat -b BOOTSTRAP -L` shows addresses of another network than that of the bootstrap server.",
        "Connect to the port of the listener that is meant for the client's network. If there is none, run kproxy, or "
        "add a listener to `listeners`, `advertised.listeners` and `listener.security.protocol.map` of each broker.",
        program_messages(
            java=(
                "org.apache.kafka.common.errors.ListenerNotFoundException: …",
                "There is no listener on the leader broker that matches the listener on which metadata request was",
            ),
            librdkafka=("Broker: No matching listener found on leader broker",),
            kafka_python=("ListenerNotFoundError",),
            franz_go=("LISTENER_NOT_FOUND: …",),
            sarama=("kafka server: There is no listener on the leader broker that matches the listener on which",),
        ),
    ),
    Remedy(
        Fault.SAME_ADDRESS_TWICE,
        "Several brokers advertise one address",
        "Several brokers advertise the same address, so the client reaches the same broker, or a random one, for all "
        "of them.",
        "`kcat -b BOOTSTRAP -L` shows the same host and port for several broker ids.",
        "Give each broker its own `advertised.listeners`. Behind one name, give each broker its own port. kproxy cannot "
        "tell such brokers apart by address: set `--map node:ID=HOST:PORT` for each broker.",
        program_messages(
            java=(
                "For requests intended only for the leader, this error indicates that the broker is not the current",
            ),
            librdkafka=("Broker: Not leader for partition",),
            kafka_python=("NotLeaderForPartitionError",),
        ),
    ),
)
