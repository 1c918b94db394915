"""Faults of the network between the client and an address."""

from __future__ import annotations

from kproxy.advice.remedies.remedy import parse_remedies

TABLE = parse_remedies("""
== port-closed: Nothing listens on the port
The machine is up and refuses the connection, because nothing listens on that port there. The broker is down or
listens on another port or interface, a port-forward has ended, or the name means the wrong machine.
Check: `nc -vz HOST PORT` from the client's machine says `Connection refused`. On the broker, `ss -ltn` shows where it
listens.
Fix: Start the broker or the port-forward. If the address is a broker's advertised address and not what you connect to
otherwise, run kproxy: it dials the reachable address instead. Inside a container, 127.0.0.1 is the container itself.
java> Connection to node … could not be established. Node may not be available.
java*> Connection to node … could not be established
java> Connection to node … could not be established. Broker may not be available.
java> Timed out waiting for a node assignment
java> Failed to update metadata after … ms
java> Topic … not present in metadata after … ms
java> Timeout of …ms expired before the position for partition … could be determined
java> Timeout of …ms expired before the last committed offset for partitions
java!> ms has passed since batch creation
java> Timeout expired while fetching topic metadata
java> Timeout expired while trying to create topic
java> Call(callName=…, deadlineMs=…) timed out at …
java?> java.net.ConnectException: Connection refused
spark> Error in attempt … getting Kafka offsets
spark> terminated with exception: Timed out waiting for a node assignment
spark> terminated with exception: Timeout of …ms expired before the position for partition … could be determined
librdkafka> Connect to … failed: Connection refused
kafka-python> unable to connect: [Errno 111] Connection refused
kafka-python> KafkaConnectionError: 111 ECONNREFUSED
kafka-python> KafkaConnectionError: 61 ECONNREFUSED
kafka-python> unable to connect: [Errno 61] Connection refused
kafka-python> KafkaTimeoutError: Unable to bootstrap from
kafka-python> NoBrokersAvailable
aiokafka> KafkaConnectionError: Unable to bootstrap from [
aiokafka> Unable connect to "…": [Errno 111] Connect call failed (…)
aiokafka> Unable connect to node with id …: [Errno 111] Connect call failed (…)
aiokafka> Unable connect to node with id …: Multiple exceptions: [Errno 111] Connect call failed (…)
aiokafka> Unable connect to "…": Multiple exceptions: [Errno 111] Connect call failed (…)
kafkajs> Connection error: connect ECONNREFUSED …
kafkajs> Failed to connect: connect ECONNREFUSED …
franz-go> unable to open connection to broker; addr: …, err: dial tcp …: connect: connection refused
franz-go> unable to dial: dial tcp …: connect: connection refused
sarama> Failed to connect to broker …: dial tcp …: connect: connection refused
sarama> kafka: client has run out of available brokers to talk to: dial tcp …: connect: connection refused
sarama> kafka: client has run out of available brokers to talk to

== filtered: The address does not answer
Nothing answers at this address, not even with a refusal. A firewall or security group drops the packets, the VPN is
off, or the host is down. It is typical of a private advertised address.
Check: `nc -vz -w 5 HOST PORT` from the client's machine ends with a timeout.
Fix: Connect the VPN, or open the port in the firewall. Or run kproxy with addresses that the client's machine can
reach (`--map`), or along a machine that reaches the brokers (`--via`).
java> Disconnecting from node … due to socket connection setup timeout. The timeout value is … ms.
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
librdkafka> Connection setup timed out in state CONNECT
librdkafka> Connect to … failed: Connection timed out
librdkafka> Connect to … failed: Operation timed out
kafka-python> KafkaConnectionError: Connection timed out
kafka-python> Connection attempt to <BrokerConnection …> timed out
kafka-python> KafkaTimeoutError: Unable to bootstrap from
kafka-python> NoBrokersAvailable
aiokafka> KafkaConnectionError: Unable to bootstrap from [
aiokafka> Unable connect to "…":
aiokafka> Unable connect to "…": [Errno 110] Connect call failed (…)
aiokafka> Unable connect to node with id …: [Errno 110] Connect call failed (…)
kafkajs> Connection error: connect ETIMEDOUT …
kafkajs> Failed to connect: Connection timeout
kafkajs> KafkaJSConnectionError: Connection timeout
franz-go> unable to open connection to broker; addr: …, err: dial tcp …: i/o timeout
franz-go> unable to dial: dial tcp …: i/o timeout
sarama> Failed to connect to broker …: dial tcp …: i/o timeout
sarama> kafka: client has run out of available brokers to talk to: dial tcp …: i/o timeout
sarama> kafka: client has run out of available brokers to talk to

== no-route: There is no route to the address
The client's machine or a router has no route to this address: the VPN or the network is down, or the address is IPv6
and the machine has no IPv6. Some firewalls answer like this too.
Check: `ip route get ADDRESS` on the client's machine shows no route, or `ping` says `Destination unreachable`.
Fix: Connect the VPN, or correct the routes or the firewall. Or run kproxy along a machine that has a route (`--via`).
java> Connection to node … could not be established. Node may not be available.
java> Connection to node … could not be established
java> Connection to node … could not be established. Broker may not be available.
java?> java.net.NoRouteToHostException: No route to host
java?> java.net.ConnectException: Network is unreachable
librdkafka> Connect to … failed: No route to host
librdkafka> Connect to … failed: Network is unreachable
librdkafka> Connect to … failed: Host is unreachable
kafka-python> unable to connect: [Errno 113] No route to host
kafka-python> unable to connect: [Errno 101] Network is unreachable
kafka-python> KafkaConnectionError: 113 EHOSTUNREACH
kafka-python> KafkaConnectionError: 101 ENETUNREACH
aiokafka> Unable connect to node with id …: [Errno 113] Connect call failed (…)
aiokafka> Unable connect to "…": [Errno 113] Connect call failed (…)
aiokafka> Unable connect to node with id …: [Errno 101] Connect call failed (…)
aiokafka> Unable connect to "…": [Errno 101] Connect call failed (…)
kafkajs> Connection error: connect EHOSTUNREACH …
kafkajs> Connection error: connect ENETUNREACH …
franz-go> unable to open connection to broker; addr: …, err: dial tcp …: connect: no route to host
franz-go> unable to dial: dial tcp …: connect: no route to host
franz-go> unable to dial: dial tcp …: connect: network is unreachable
sarama> Failed to connect to broker …: dial tcp …: connect: no route to host
sarama> Failed to connect to broker …: dial tcp …: connect: network is unreachable

== ipv6-only: The address is IPv6, and the client uses IPv4 only, or the reverse
The name has addresses of one family only, and the client or its network uses the other.
Check: `getent ahosts NAME` shows which families the name has. The client's setting is `broker.address.family`
(librdkafka), or `java.net.preferIPv4Stack` (Java).
Fix: Let the client use both families, give the name an address of the other family, or run kproxy on a machine that
has both.
java?> java.net.SocketException: Protocol family unavailable
librdkafka> Connect to ipv6#… failed: Network is unreachable
librdkafka> Connect to ipv6#… failed: Cannot assign requested address
librdkafka> Failed to resolve '…': Address family for hostname not supported
kafka-python> DNS lookup failed for …Address family for hostname not supported

== silent: The server accepts the connection and answers nothing
Something accepts the connection and then sends nothing: a port-forward or load balancer whose target is down, a
broker that hangs, or a server of another kind that waits for another protocol.
Check: `kcat -b HOST:PORT -L -d broker` connects and then waits. `nc HOST PORT` stays open.
Fix: Check what is behind the address: the target of the port-forward, the health of the broker, the port.
java> Disconnecting from node … due to request timeout.
java> Cancelled in-flight API_VERSIONS request with correlation id …
java> Timed out waiting for a node assignment
java> Failed to update metadata after … ms
java> Topic … not present in metadata after … ms
java> Timeout of …ms expired before the position for partition … could be determined
java> Timeout of …ms expired before the last committed offset for partitions
java!> ms has passed since batch creation
java> Timeout expired while fetching topic metadata
java> Timeout expired while trying to create topic
java> Call(callName=…, deadlineMs=…) timed out at …
librdkafka> ApiVersionRequest failed: Local: Timed out
librdkafka> Connection setup timed out in state APIVERSION_QUERY
librdkafka> Connection setup timed out in state SSL_HANDSHAKE
librdkafka> … request(s) timed out: disconnect
kafka-python> Timeout during ApiVersions check
kafka-python> Request timed out after … ms
kafka-python> KafkaTimeoutError: Unable to bootstrap from
kafka-python> NoBrokersAvailable
aiokafka> KafkaConnectionError: Unable to bootstrap from [
aiokafka> Unable connect to "…":
aiokafka> RequestTimedOutError
kafkajs> Request … timed out
sarama> Error while sending ApiVersionsRequest …: read tcp …: i/o timeout

== closed: The server closes the connection without an answer
Something accepts the connection and closes it before it answers. Often only one side uses TLS or SASL. Other reasons:
the broker is stopping, the load balancer has no healthy target, or the server is not Kafka.
Check: The broker's log has a line for the connection, such as `Invalid receive` or `Failed authentication`. If it has
none, the connection did not reach a broker.
Fix: Compare the client's `security.protocol` with the listener's protocol in `listener.security.protocol.map` of the
broker.
java> Connection to node … terminated during authentication
java?> java.io.EOFException
java?> java.io.IOException: Connection reset by peer
java> Timed out waiting for a node assignment
java> Failed to update metadata after … ms
java> Topic … not present in metadata after … ms
java> Timeout of …ms expired before the position for partition … could be determined
java> Timeout of …ms expired before the last committed offset for partitions
java!> ms has passed since batch creation
java> Timeout expired while fetching topic metadata
java> Timeout expired while trying to create topic
java> Call(callName=…, deadlineMs=…) timed out at …
librdkafka> Disconnected while requesting ApiVersion
librdkafka> ApiVersionRequest failed: Local: Broker transport failure
librdkafka> Disconnected: verify that security.protocol is correctly configured
librdkafka> Disconnected: connection closed by peer: receive 0 after POLLIN (after …ms in state APIVERSION_QUERY)
librdkafka> Disconnected: connection closed by peer
librdkafka> Disconnected (after …ms in state APIVERSION_QUERY
librdkafka> Receive failed: Connection reset by peer
librdkafka> Receive failed: Disconnected
librdkafka> Receive failed: No error
librdkafka> Send failed: Broken pipe
librdkafka> Send failed: Connection reset by peer
librdkafka> Disconnected (after …
kafka-python> KafkaConnectionError: socket disconnected
kafka-python> socket disconnected
kafka-python> KafkaTimeoutError: Unable to bootstrap from
kafka-python> NoBrokersAvailable
aiokafka> KafkaConnectionError: Unable to bootstrap from [
aiokafka> Connection at … closed
aiokafka> Connection at … broken
kafkajs> KafkaJSConnectionClosedError: Closed connection
kafkajs> Connection closed by the server
franz-go> the broker connection has died
sarama> kafka: client has run out of available brokers to talk to
sarama> kafka: client has run out of available brokers to talk to: EOF
sarama> client/metadata got error from broker … while fetching metadata: EOF
sarama> client/metadata got error from broker … while fetching metadata: unexpected EOF
sarama> Error while sending ApiVersionsRequest …: EOF

== hop-failed: A proxy or SSH server on the path fails
The proxy or SSH server through which the client connects cannot be reached, does not accept the login, or does not
connect to the broker.
Check: Connect through the same hop by hand: `curl -x PROXY telnet://HOST:PORT`, `ssh -W HOST:PORT SERVER`.
Fix: Correct the hop's address or login, or let the hop's rules allow the brokers' addresses and ports.
java?> java.net.SocketException: SOCKS: …
java?> Can't connect to SOCKS proxy:…
kafka-python> Unable to connect to proxy
kafka-python> proxy_url requires scheme://

== forward-ended: The port-forward or tunnel to the broker has ended
A port-forward, an SSH tunnel or a mapped address led to the broker, and does not any more: its program has ended, the pod
or the machine behind it is gone, or the connection below it was lost.
Check: `ps` shows whether the program still runs. `kproxy doctor` asks at each address which broker is there.
Fix: Start it again for this broker. Or let kproxy start it, for each broker, and again whenever it ends:
`kproxy run … --forward-command 'kubectl port-forward pod/kafka-{node} {port}:9092'`.
any> error: lost connection to pod
any> error forwarding port … to pod …

== kproxy-needed: Only kproxy reaches the brokers
A Kafka client connects to brokers by itself, at the addresses that they advertise. It uses no SSH server, no
Kubernetes API server and no map, and Java's and librdkafka's clients use no proxy either.
Check: `nc -vz HOST PORT` on the client's machine, for each advertised address.
Fix: Let kproxy run for as long as clients need it: `kproxy up` runs it in the background. Or let the client's machine
reach the brokers: a VPN, a route, a firewall rule, their names in DNS.

== proxy-loop: The address leads back to kproxy
The cluster advertises the address on which kproxy itself listens, for example `localhost:9092`. A connection to it
would come back to kproxy.
Check: Compare `kcat -b BOOTSTRAP -L`, without kproxy, with `--listen`.
Fix: Set the broker's real address with `--map`, or another address with `--listen`.

== too-many-files: The process has too many open files
Each connection and each log segment needs a file descriptor, and the process has reached its limit.
Check: `ls /proc/PID/fd | wc -l` is near the limit in `/proc/PID/limits`.
Fix: Raise the limit (`ulimit -n`, `LimitNOFILE=` in systemd), or find the program that opens so many connections:
often it creates a new client again and again instead of reusing one.
java?> java.net.SocketException: Too many open files
java?> java.io.IOException: Too many open files
librdkafka> Failed to create socket: Too many open files
kafka-python?> [Errno 24] Too many open files
broker> Error while accepting connection (kafka.network.Acceptor)
""")
