"""Faults of advertised addresses."""

from __future__ import annotations

from kproxy.advice.remedies.remedy import parse_remedies

TABLE = parse_remedies("""
== name-not-resolved: A broker's name cannot be resolved
The client has reached one broker. This broker has sent the advertised addresses of all brokers, and the client's
machine cannot resolve the name in one of them. A bootstrap server that is misspelt looks the same.
Check: `kcat -b BOOTSTRAP -L` shows the advertised names. `getent hosts NAME` on the client's machine prints nothing
for this name.
Fix: Run kproxy beside the client, and use kproxy as the client's bootstrap server. Or make the name known to the
client (DNS, `/etc/hosts`). Or set `advertised.listeners` of the broker to a name that its clients can resolve.
java> Couldn't resolve server … from bootstrap.servers as DNS resolution failed for
java!> Removing server … from bootstrap.servers as DNS resolution failed for
java!> Removing server from bootstrap.servers as DNS resolution failed
java!> Couldn't resolve server … as DNS resolution …failed for
java> DNS resolution failed for url in bootstrap.servers
java> No resolvable bootstrap urls given in bootstrap.servers
java> Error connecting to node …
java?> java.net.UnknownHostException: …
java> Timed out waiting for a node assignment
java> Failed to update metadata after … ms
java> Topic … not present in metadata after … ms
java> Timeout of …ms expired before the position for partition … could be determined
java> Timeout of …ms expired before the last committed offset for partitions
java!> ms has passed since batch creation
java> Timeout expired while fetching topic metadata
java> Timeout expired while trying to create topic
java> Call(callName=…, deadlineMs=…) timed out at …
spark> Error in attempt … getting Kafka offsets
spark> terminated with exception: Timed out waiting for a node assignment
spark> terminated with exception: Timeout of …ms expired before the position for partition … could be determined
librdkafka> Failed to resolve '…': …
librdkafka> Local: Host resolution failure
kafka-python> DNS lookup failed for …
kafka-python> DNS Resolution failure
kafka-python> KafkaTimeoutError: Unable to bootstrap from
kafka-python> NoBrokersAvailable
aiokafka> KafkaConnectionError: Unable to bootstrap from [
aiokafka> Unable connect to "…": [Errno -2] Name or service not known
aiokafka> Unable connect to "…": [Errno -5] No address associated with hostname
aiokafka> Unable connect to node with id …: [Errno -2] Name or service not known
aiokafka> Unable connect to node with id …: [Errno -5] No address associated with hostname
aiokafka> Unable connect to node with id …: [Errno 8] nodename nor servname provided, or not known
kafkajs> Connection error: getaddrinfo ENOTFOUND …
kafkajs> Failed to connect: getaddrinfo ENOTFOUND …
franz-go> unable to open connection to broker; addr: …, err: dial tcp: lookup …: no such host
franz-go> unable to dial: dial tcp: lookup …: no such host
sarama> Failed to connect to broker …: dial tcp: lookup …: no such host
sarama> kafka: client has run out of available brokers to talk to: dial tcp: lookup …: no such host
sarama> kafka: client has run out of available brokers to talk to
sarama?> no such host

== name-resolves-wrongly: A broker's name means another machine here
The client's machine resolves the advertised name, but to an address that is not the broker's: an address of another
network, an old one, or its own.
Check: Compare `getent hosts NAME` on the client's machine and on the broker.
Fix: Correct the name in DNS or in `/etc/hosts`. Or run kproxy with the broker's real address in `--map`.
java> Connection to node … could not be established. Node may not be available.
librdkafka> Connect to … failed: Connection refused
kafka-python> unable to connect: …

== dns-silent: The resolver does not answer
The name server of the client's machine does not answer, so no name can be resolved for the moment.
Check: `getent hosts NAME` hangs, or fails with `Try again`.
Fix: Check the VPN and `/etc/resolv.conf`. In Kubernetes, check that the pod may reach the cluster's DNS service.
java?> java.net.UnknownHostException: …: Temporary failure in name resolution
librdkafka> Failed to resolve '…': Temporary failure in name resolution
librdkafka> Failed to resolve '…': Try again
kafka-python> DNS lookup failed for …Temporary failure in name resolution
aiokafka> Unable connect to "…": [Errno -3] Temporary failure in name resolution
aiokafka> Unable connect to node with id …: [Errno -3] Temporary failure in name resolution
kafkajs> Connection error: getaddrinfo EAI_AGAIN …
kafkajs> Failed to connect: getaddrinfo EAI_AGAIN …
franz-go> unable to dial: dial tcp: lookup …: i/o timeout
franz-go> unable to dial: dial tcp: lookup …: server misbehaving
sarama> Failed to connect to broker …: dial tcp: lookup …: i/o timeout
sarama> Failed to connect to broker …: dial tcp: lookup …: server misbehaving

== loopback-advertised: A broker advertises localhost
The broker advertises `localhost` or 127.0.0.1. For each client, this is the client's own machine or container. It
works only on the broker's own machine.
Check: `kcat -b BOOTSTRAP -L` shows `localhost` or 127.0.0.1, although the bootstrap server is another machine.
Fix: Run kproxy beside the client. For good, set `advertised.listeners` of the broker to an address that the clients
can reach; use one listener for each network from which clients come.
java> Connection to node … (localhost/127.0.0.1:…) could not be established. Node may not be available.
java> Connection to node … (/127.0.0.1:…) could not be established. Node may not be available.
librdkafka> localhost:…: Connect to ipv4#127.0.0.1:… failed: Connection refused
librdkafka> localhost:…: Connect to ipv6#[::1]:… failed: Connection refused
kafka-python> host=localhost, port=…: unable to connect
aiokafka> Unable connect to node with id …: [Errno 111] Connect call failed ('127.0.0.1', …)
kafkajs> Connection error: connect ECONNREFUSED 127.0.0.1:…
franz-go> unable to dial: dial tcp 127.0.0.1:…: connect: connection refused
sarama> Failed to connect to broker localhost:…: dial tcp 127.0.0.1:…: connect: connection refused

== wildcard-advertised: A broker advertises the wildcard address
The broker advertises 0.0.0.0 or [::], which means "every interface" and is no address to connect to.
Check: `kcat -b BOOTSTRAP -L` shows 0.0.0.0. Kafka refuses to start with it, so an image's start script or a proxy has
set it.
Fix: Set `advertised.listeners` of the broker to a name or address of the broker. 0.0.0.0 belongs into `listeners`.
java> Connection to node … (/0.0.0.0:…) could not be established. Node may not be available.
librdkafka> 0.0.0.0:…: Connect to ipv4#0.0.0.0:… failed: …
kafka-python> host=0.0.0.0, port=…: unable to connect
broker> advertised.listeners cannot use the nonroutable meta-address 0.0.0.0

== container-name-advertised: A broker advertises a container's name
The broker advertises the id or the service name of its container. Only containers of the same Docker network can
resolve it.
Check: `kcat -b BOOTSTRAP -L` shows a name without a dot, such as `kafka`, `broker` or twelve hexadecimal digits.
Fix: Run kproxy on the client's machine, with the published port as the bootstrap server. For good, give the broker a
second listener for clients outside Docker, which advertises the host's name and the published port.
java> Error connecting to node …: …: Name or service not known
librdkafka> Failed to resolve '…': Name or service not known
kafka-python> DNS lookup failed for …

== kubernetes-name-advertised: A broker advertises a name of Kubernetes
The broker advertises a name that only pods of its Kubernetes cluster can resolve.
Check: `kcat -b BOOTSTRAP -L` shows names that end with `.svc` or `.svc.cluster.local`, or names of pods.
Fix: Let kproxy forward a port to each broker, through the API server: `kproxy run --via k8s://kafka BOOTSTRAP` (with your namespace); or
with a command: `--forward-command 'kubectl port-forward pod/{short-host} {port}:{remote-port}'`. For good, give the cluster an external listener (NodePort, load balancer, Ingress).
java> Error connecting to node ….svc.cluster.local:…
java?> java.net.UnknownHostException: ….svc.cluster.local
librdkafka> Failed to resolve '….svc.cluster.local:…': …
librdkafka> Failed to resolve '….svc:…': …
kafka-python> DNS lookup failed for ….svc.cluster.local:…
aiokafka> Unable connect to node with id …: [Errno -2] Name or service not known
kafkajs> Connection error: getaddrinfo ENOTFOUND ….svc.cluster.local
franz-go> unable to dial: dial tcp: lookup ….svc.cluster.local…: no such host
sarama> Failed to connect to broker ….svc.cluster.local:…: dial tcp: lookup …: no such host

== private-address-advertised: A broker advertises a private address
The broker advertises an address of its own private network (10.…, 172.16.… to 172.31.…, 192.168.…). The client is
outside of this network.
Check: `kcat -b BOOTSTRAP -L` shows a private address, and a connection to this address gets no answer.
Fix: Connect the VPN. Or run kproxy: with the reachable address of each broker as bootstrap servers, with `--map`, or
with `--via` along an SSH server or proxy that reaches the network.
java> Connection to node … (/10.…) could not be established. Node may not be available.
java> Connection to node … (/172.…) could not be established. Node may not be available.
java> Connection to node … (/192.168.…) could not be established. Node may not be available.
librdkafka> Connection setup timed out in state CONNECT
kafka-python> Connection timed out

== wrong-listener: The broker answers with another listener's address
A broker has an advertised address for each listener, and answers with that of the listener to which the client has
connected. The client's port belongs to a listener for other clients. Or the leader of a partition lacks the listener.
Check: `kcat -b BOOTSTRAP -L` shows addresses of another network than that of the bootstrap server.
Fix: Connect to the port of the listener that is meant for the client's network. If there is none, run kproxy, or add
a listener to `listeners`, `advertised.listeners` and `listener.security.protocol.map` of each broker.
java> org.apache.kafka.common.errors.ListenerNotFoundException: …
java> There is no listener on the leader broker that matches the listener on which metadata request was
librdkafka> Broker: No matching listener found on leader broker
kafka-python> ListenerNotFoundError
franz-go> LISTENER_NOT_FOUND: …
sarama> kafka server: There is no listener on the leader broker that matches the listener on which

== same-address-twice: Several brokers advertise one address
Several brokers advertise the same address, so the client reaches the same broker, or a random one, for all of them.
Check: `kcat -b BOOTSTRAP -L` shows the same host and port for several broker ids.
Fix: Give each broker its own `advertised.listeners`. Behind one name, give each broker its own port. kproxy cannot
tell such brokers apart by address: set `--map node:ID=HOST:PORT` for each broker.
Clients: They say that a broker is not the leader of a partition, again and again.
""")
