"""Faults that only a proxy can observe: how clients behave and brokers answer. No program has messages for them."""

from __future__ import annotations

from kproxy.advice.remedies.faults import Fault
from kproxy.advice.remedies.remedy import Remedy

TABLE: tuple[Remedy, ...] = (
    Remedy(
        Fault.NODE_UNREACHABLE,
        "kproxy cannot reach a broker",
        "The broker does not run, or no address of it leads there from kproxy's machine: its name does not resolve, a "
        "port-forward, a tunnel or a VPN has ended, or a firewall drops the packets. Clients that need this broker wait "
        "or fail. kproxy tries again, at most 15 s after the last try.",
        "`kproxy doctor HOST:PORT`, with a bootstrap server, says which step fails. On kproxy's machine: `nc -vz HOST "
        "PORT` with the address that the finding names.",
        "Start the broker, or what leads to it. If it runs and its address is no good on kproxy's machine, say where it "
        "is: `--map node:ID=HOST:PORT`, or list a reachable address of each broker in `--bootstrap-servers`.",
        (),
    ),
    Remedy(
        Fault.CLIENT_NOT_KAFKA,
        "A program that is no Kafka client comes to kproxy's Kafka port",
        "A browser, a health check, a metrics scraper, a scanner or a load balancer speaks another protocol to a port "
        "that is for Kafka clients. The brokers have nothing to do with it, and kproxy does not connect it to them.",
        "The finding says which protocol it is and from where it comes. On that machine, `ss -tnp` shows the program.",
        "Give the port to Kafka clients alone. Health and metrics are on the admin port, 19091: `/readyz`, `/livez`, "
        "`/metrics`. A health check of a load balancer must be one of TCP. Turn off the PROXY protocol in it "
        "(`send-proxy`), and remove `socksProxyHost` from the client.",
        (),
    ),
    Remedy(
        Fault.CLIENT_BLOCKED,
        "A client does not come to a node's port",
        "The client has learned kproxy's port for the node, and no connection from it has arrived there. A firewall, a "
        "container without this port, a forwarding of the bootstrap port alone, or `--advertise` with a name that leads "
        "elsewhere keeps it away. A client that needs nothing of that node does not connect either.",
        "On the client's machine: `nc -vz HOST PORT` with the address that the finding names.",
        "Publish or forward all ports of `--node-ports` and not only that of `--listen`, open them in the firewall, and "
        "let `--advertise` be a name that leads the client to kproxy.",
        (),
    ),
    Remedy(
        Fault.ASKS_AGAIN,
        "A client asks for metadata again and again",
        "A client asks again at once if something is missing in what it was told: a leader, a topic, a node that it can "
        "connect to. Some programs also make a new client for each message.",
        "The client's log at level WARN or DEBUG says what it lacks. `kproxy doctor HOST:PORT` shows the cluster's state.",
        "Mend what the client lacks. If it makes a client for each message, let it keep one.",
        (),
    ),
    Remedy(
        Fault.SLOW_NODE,
        "One node answers much slower than the others",
        "The node's disk, network or garbage collection is slow, it leads more partitions than the others, or the way to "
        "it is longer.",
        "`kafka-topics --describe --bootstrap-server HOST:PORT` shows how many partitions it leads. The node's own "
        "metrics (`TotalTimeMs` and its parts by request) show where the time goes.",
        "Mend the disk or the network, or spread the partitions evenly: `kafka-leader-election` and "
        "`kafka-reassign-partitions`.",
        (),
    ),
    Remedy(
        Fault.CONNECTION_LEAK,
        "One client has very many connections to one node",
        "A client has one or two connections to each node. Many of them with one client id mean that a program makes "
        "clients and does not close them, or that many programs have the same client id.",
        "`curl 127.0.0.1:19091/sessions` shows since when each session is there: those of a leak grow older and more.",
        "Close each producer, consumer and admin client when it is not needed any more, or keep one. Give different "
        "programs different values of `client.id`.",
        (),
    ),
)
