"""Faults that only a proxy can observe: how clients behave and brokers answer. No program has messages for them."""

from __future__ import annotations

from kproxy.advice.remedies.remedy import parse_remedies

TABLE = parse_remedies("""
== node-unreachable: kproxy cannot reach a broker
The broker does not run, or kproxy's machine cannot connect to any of its addresses: its name does not resolve, a
port-forward, a tunnel or a VPN has ended, or a firewall drops the packets. Clients that need this broker wait or
fail. kproxy tries again, at most 15 s after the last try.
Check: `kproxy doctor HOST:PORT`, with a bootstrap server, says which step fails. On kproxy's machine: `nc -vz HOST
PORT` with the address that the finding names.
Fix: Start the broker, or the port-forward, tunnel or VPN to it; with `--forward-command`, kproxy starts a port-forward
for each broker, and again when it ends. If it runs and its address does not work on kproxy's
machine, give kproxy another one: `--map node:ID=HOST:PORT`, or list a reachable address of each broker in
`--bootstrap-servers`.

== client-not-kafka: A program that is not a Kafka client connects to kproxy's Kafka port
A browser, a health check, a metrics scraper, a scanner or a load balancer speaks another protocol to a port that is
for Kafka clients. kproxy does not connect it to a broker, so the brokers are not involved.
Check: The finding names the protocol and the client's address. On that machine, `ss -tnp` shows the program.
Fix: Let only Kafka clients use the port. Health and metrics are on the admin port, 19091: `/readyz`, `/livez`,
`/metrics`. A health check of a load balancer must be a TCP check. Turn off the PROXY protocol in it (`send-proxy`),
and remove `socksProxyHost` from the client.

== client-blocked: A client does not connect to a node's port
The client has received kproxy's port for the node, and has not connected to it. Possible reasons: a firewall, a
container that does not publish this port, a port-forward of the bootstrap port alone, or a name in `--advertise` that
leads elsewhere. A client that needs nothing of that node does not connect either.
Check: On the client's machine: `nc -vz HOST PORT` with the address that the finding names.
Fix: Publish or forward all ports of `--node-ports` and not only that of `--listen`, open them in the firewall, and
let `--advertise` be a name that leads the client to kproxy.

== asks-again: A client asks for metadata again and again
A client asks again at once if the metadata lacks something: a leader, a topic, a node that it can connect to. Some
programs also create a new client for each message.
Check: The client's log at level WARN or DEBUG says what it lacks. `kproxy doctor HOST:PORT` shows the cluster's
state.
Fix: Fix what the client lacks. If the program creates a client for each message, let it reuse one.

== slow-node: One node answers much slower than the others
The node's disk, network or garbage collection is slow, it leads more partitions than the others, or the network path
to it is longer.
Check: `kafka-topics --describe --bootstrap-server HOST:PORT` shows how many partitions it leads. The node's own
metrics (`TotalTimeMs` and its parts by request) show where the time goes.
Fix: Fix the disk or the network, or spread the partitions evenly: `kafka-leader-election` and
`kafka-reassign-partitions`.

== connection-leak: One client has very many connections to one node
A client has one or two connections to each node. Many connections with one client id mean that a program creates
clients and does not close them, or that many programs have the same client id.
Check: `curl 127.0.0.1:19091/sessions` shows the age of each session: with a leak, their age and number grow.
Fix: Close each producer, consumer and admin client when it is no longer needed, or reuse one. Give different programs
different values of `client.id`.
""")
