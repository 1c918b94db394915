"""One cluster as clients see it: a local port for each node.

topology            the nodes of an upstream, their advertised addresses and their local ports (pure)
portclaims          several kproxies at the same ports: what each claims of a port, and which of them accepts clients
listeners           the sockets that clients connect to: bound before kproxy advertises them, closed when unused
ownaddresses        the addresses on which the process listens, and which it therefore never dials
reachability        the cluster's id, the node at each address, the route of each node (pure)
identity            asks which cluster and which node answers at an upstream address, and finds the proof
nodecheck           asks a broker whether it is a certain node, which brokers since Kafka 4.4 answer
upstreamconnector   opens one upstream connection: connect, TLS, login
nodeverifier        opens a connection and verifies that it leads to the expected node
verifiedconnection  a connection that leads to the expected node, or is verified within its session
nodedialer          dials a node along the routes that may lead to it; since when a node cannot be reached
newcluster          a Kafka cluster with another id: when kproxy may serve it in place of the former one (pure)
clusterwatch        asks which Kafka cluster answers at the bootstrap servers, once a broker of another one has answered
routewatch          looks at forwards that no session uses: whether they still lead to their nodes
explorer            finds the nodes and their routes, at start and in the background
report              the state of the cluster at one moment, for `kproxy.proxy.status`
encryption          TLS to the cluster's brokers and from its clients, as configured
usercheck           checks that a user can log in to an upstream, and has some rights there
upstream            one Kafka cluster to which clients can be routed: its nodes, their dialer, their explorer; the local
                    addresses that kproxy has put in place of advertised ones
nodeports           the listeners of the nodes
forwards            local ports that are forwarded to something else than a broker
gateway             the nodes and their ports; the local addresses for endpoints; which upstream is active
clientconnection    a client connection from accept to close: its state, its socket, its slot
connectionslots     how many connections fit the limit of open files, and which give way to others
acceptor            accepts clients, reads their first bytes, refuses what is not Kafka
clientroute         the route of a client: its upstream, chosen by its client id where a cluster has parts
dialqueue           limits how many clients wait for a connection to their node at once
pendingconnections  clients without a session yet: the TLS handshake, their route, the dial
misrouted           refuses clients that expect another cluster or node, so that they bootstrap again
allsessions         the sessions of all clusters of the process
sessions            creates the session of a client whose node is connected, and ends it
nodecalls           the calls towards each node, which all sessions to it share
sessionparts        the parts of the cluster: clients that are routed by themselves, with their sessions
insessionchannel    sends kproxy's own requests within a session, between the client's: verifies the node, logs in again
switchableunit      what a unit that can be switched needs beside its sessions
clientlogins        the logins of clients at kproxy: users, kproxy's login for each, pauses after failures
clientsasllogin     the login of one client with SASL, and its lifetime
clientcertificatelogin  the login of one client by its certificate
clusteraccess       the access rules of the cluster: they judge its sessions; what they have refused
writehold           holds the writes of a unit's clients before a switch, and tracks unanswered ones
sessionguards       the guards of a unit's sessions after a switch
observers           the observers of the sessions: the live feed, the packet capture, readers of requests
unknownapis         the warnings that brokers offer APIs which kproxy keeps from clients
timelimits          time limits of tasks that share one timer
tasks               task groups in which a failed task does not end the others

Which node kproxy has reached
-----------------------------

An address that accepts a connection need not be the node: another cluster, another broker, a web server or a load
balancer may listen there. So kproxy sends no request of a client along a connection before it knows which cluster and
which node answers (`identity`). If another node answers, kproxy closes the connection, logs the address, and tries the
next route.

 * Which cluster: every broker sends its cluster id in Metadata v2 and later. With `--cluster-id`, kproxy serves only
   that cluster; else the first bootstrap server that answers determines the cluster. So if all addresses belong to a
   wrong cluster at start, kproxy serves that one; the log names its id and the server. Another cluster takes its place
   only by an operator's command, or by an option (`newcluster`, `clusterwatch`). `Gateway.serve_new_cluster` then makes
   a new `Upstream`, so that nothing is left of what was known: nodes, routes, proofs. As in a flip, all connections end
   in the same step of the event loop. Later sessions have an `EpochGuard`: librdkafka would refuse leaders whose epochs
   are lower than those of the former cluster.
 * Which node: kproxy uses the first of these proofs that gives an answer.
    0. Since Kafka 4.4, the broker confirms the cluster and the node in its answer to ApiVersions 5, and refuses any
       other. kproxy asks with the client's own request, so this costs no round trip, and needs no right (`nodecheck`).
       A connection to a bootstrap server is for any node: there kproxy asks for the node that it was last, and if it
       is not that one, checks the cluster alone. The protocol has no check of the cluster without a node.
    1. The broker's own word: kproxy sends DescribeConfigs for another broker, and the refusal names the broker that
       was asked. It needs DescribeConfigs on the cluster, a right that few users have.
    2. The broker's certificate, if it has the advertised host of exactly one node.
    3. The cluster has only one broker.
    4. ListOffsets, which only the leader of a partition answers. It needs Describe on a topic.
    5. ListGroups and FindCoordinator. They need Describe on a group.
 * No proof: if the cluster is right, kproxy assumes that the address is the node's if it is advertised or mapped
   for the node, or was the node's before. The log says so. A bootstrap server whose node is unknown is no route.
 * Only the client has credentials: kproxy asks within the client's session. It passes the client's login on, and
   holds the first other request until the broker has answered kproxy's questions. That may be ApiVersions: Java's
   clients ask for it again behind the login. Then kproxy asks with this request, and the client gets the answer, so
   proof 0 costs no round trip. librdkafka does not ask again; for it, each connection costs one. If the node is the
   wrong one, kproxy ends the session as if the broker had disconnected; the client's next attempt takes the next
   address. By then the wrong address has received the client's SASL messages; `--tls` protects them. The same holds
   for kproxy's own login.
 * kproxy asks on each connection, which costs one round trip with brokers before Kafka 4.4. A memory of what an
   address has answered was tried; the chaos run then got a request into another cluster (`identity` says how).
 * kproxy tries a bootstrap server that was another node again for an unreachable node after 5 seconds: a port-forward
   may have been repaired.

Clients without a session
-------------------------

 * kproxy accepts as many clients as the limit of open files allows (`connectionslots`). When all slots are in use, a
   new client takes the slot of the oldest silent one. While more than three quarters are in use, a client may be silent
   for 10 s.
 * With `--sni`, all nodes share the bootstrap listener, and the name in the TLS handshake says which node it is for.
 * For each cluster, kproxy dials for a bounded number of clients at the same time: a sixteenth of the open files, 16 to
   256, and half of these for one node (`dialqueue`). The others wait. Without the bound, two kproxies that are each
   other's upstreams would open connections until no file is left. Of clients that wait for an unreachable node, one
   tries for all. Where only the client has credentials, a client keeps its dial slot until the node has answered it,
   within `--connect-timeout`.

A node that cannot be reached
-----------------------------

At a port that refuses connections, each client backs off in its own way. kproxy's port accepts. For some clients that
is a success, and they connect again at once: kafka-python's producer 60 to 90 times a second, aiokafka's 10 times.
With what follows, both connect once in two seconds.

 * kproxy answers late (`pendingconnections`): it keeps the client for as long as the node has been unreachable, at most
   two seconds. So the first clients learn at once that the node is away, and then the pauses double by themselves.
   When the node is reached, or a reload may have changed the route, the kept clients continue at once.
 * Why the port stays open: another program could take it meanwhile, a bootstrap port and a port of `--sni` are not one
   node's, and one failed dial would turn away all clients until kproxy itself has tried again.
 * Why not longer: Java waits for a connection that is being opened before it asks another broker.
 * It is bounded: a cluster keeps no more clients than may dial at once, and they give way to others when
   all slots are in use.

Local ports
-----------

A node is its kind (broker or controller) and its id, never a host name; a combined node has both kinds. `topology`
has the rule for a node's port, which gives the same port on each machine and after each restart, as far as ports are
free.

 * If another program or connection has the port, the node gets the next one, and a warning says why. The node keeps
   that port for as long as kproxy runs, because clients know it. Listening on both would make the behaviour depend on
   what was free at one time. The default ports are below `net.ipv4.ip_local_port_range`, from which the system takes
   ports for connections.
 * An advertised port belongs to its node, also while the node is absent. kproxy gives it to another node only if the
   window has no other port, the node has been absent and unused for `--retire-after` (its listener is closed by then,
   and each client has asked for metadata again), and no other node has been absent for longer. Until then kproxy takes
   a free port outside the window. With a first port in `--advertise`, only ports of the window can be advertised.
 * kproxy binds the listener of a new node before it answers, of more than eight new nodes one in each turn, so that
   other sessions continue (`Gateway.localise` raises ListenersPending). So a response may name 20 new nodes; of
   responses that name more, a cluster gets at most twice its nodes at once, and 10 more in a second. A cluster may have
   as many nodes as the window has ports, and 1,000 more. Listeners may use half of the open files, in equal shares for
   each cluster.
   Where there is no room, kproxy forgets the longest absent nodes without clients, never a present one. If a node can
   have no listener, kproxy passes no response on that names it: it closes the session and logs the reason
   (`Gateway.localise`).
 * If many nodes come, go or move together, kproxy logs one line.
 * `LocalAddressCache` keeps the local addresses of an `Endpoints` object, for one revision of the upstream's topology
   and one configuration. Each node that comes, goes, moves, gets another port or is forgotten makes another revision.
   While the revision is the same, each node in those endpoints still has its listener.

Two upstreams
-------------

kproxy routes the clients of a configured cluster to one Kafka cluster, or to either of two, its upstreams. In a
`Config`, each upstream is a `ClusterConfig` with the cluster's name, and one of them is active. So an upstream has
every option, and no other package knows a second form of configuration. An `Upstream` has a topology, a dialer and an
explorer. The `Gateway` has one or two of these, and the cluster's listeners, ports and acceptor. Both upstreams are
explored and verified all the time. kproxy refuses a flip to one whose cluster id is unknown, or that is the same Kafka
cluster (`Gateway.activation_problem`).

 * Ports belong to nodes, not to upstreams. kproxy binds the nodes of both before a client needs them, so a flip binds
   nothing, cannot fail, and moves no port.
 * A port whose node the active upstream lacks is routed to a bootstrap server. A client whose addresses are all
   outdated would otherwise never ask for new ones: Java's clients before 3.8 do not go back to their bootstrap servers.
   A broker itself refuses requests for partitions that it does not lead. But a client takes what answers at a node's
   port for the node, and would continue to be refused if the node came later. So such a session lasts for at most five
   seconds (`_BOOTSTRAP_SESSION_SECONDS` in `sessions`), and kproxy routes a client there only after it has asked the
   bootstrap servers which nodes exist. The same holds for a name of `--sni` whose node does not exist.
 * A flip (`Gateway.flip`, `Sessions.flip`) is one step of the event loop: the active upstream changes, and kproxy
   closes the sessions and the connections that have none yet. So no client stays with the former upstream.
 * A `SwitchableUnit` has what only such a cluster needs. When a cluster gets its second upstream, the unit adopts its
   sessions, and each ends as soon as all its requests are answered: its client may use versions that name topics by
   ids. When it loses the other upstream, sessions continue, and new ones have no such unit.

Several kproxies at the same ports
----------------------------------

With `reuse-port` (SO_REUSEPORT), each kproxy is a process that knows about the others only what they *claim*.

 * The kernel spreads connections by a hash, so few and long ones fall unevenly (docs/performance.md). What waits in
   the queue of a process that ends is reset, and its client connects again. Each process of the same user can join
   (docs/security.md).
 * A port is a function of the window and the node (`LocalPorts.only_port`): a broker has the first port plus its id,
   a controller one from the end. kproxy does not serve a node whose port it cannot have, and an error says why.
 * Claims (`portclaims`) are names of abstract Unix sockets: a host, ports, a topic, a meaning. They live in the
   network namespace in which the ports live, and end with the process. A lock file would need a directory that all
   containers of a pod see, and would stay behind. A name says nothing about its user, so kproxy asks the socket
   (SO_PEERCRED) before it gives way. Claims of one topic that overlap must mean the same: the plan of the ports, the
   id of each upstream's Kafka cluster, and where clients are routed while no switch is under way. The later kproxy
   gives way to the earlier one.
 * kproxy listens when a bootstrap server has answered (`Listeners.resume`), with all nodes that it knows. Until then
   its ports are bound only, and the other kproxies get the clients.
 * After a flip, one kproxy accepts clients for 310 s (`PortSharing`): only the guard that saw it
   knows which position a consumer has received since the switch, and the connections of one consumer fall to several
   kproxies. The kproxy that started first guards all clients. Then no guard is needed, and all listen again.
"""
