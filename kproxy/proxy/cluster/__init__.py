"""One cluster as clients see it: a local port for each node.

localports  which local port each node has (pure)
topology    the nodes of an upstream, their advertised addresses and their local ports (pure)
told        the local addresses that clients were told, for as long as they hold (pure)
listeners   the sockets that clients connect to: bound before kproxy advertises them, closed when unused
own         the addresses on which the process listens, which no upstream leads to
known       what kproxy has found out: which cluster it is, which node each address leads to, each node's route (pure)
identity    asks which cluster and which node answers at an upstream address, and finds the proof
opening     opens one upstream connection: connect, TLS, login
meeting     opens a connection, asks who answers, and judges whether it is the right node
reach       which route leads to a node
outages     which nodes cannot be reached, since when, and when that is over
explore     finds the nodes and their routes, at start and in the background
report      the state of the cluster at one moment, for `kproxy.proxy.status`
encryption  TLS to the cluster's brokers and from its clients, as configured
upstream    one Kafka cluster that the cluster can lead to: its nodes, the ways to them, who explores it
nodeports   the listeners of the nodes
forwards    local ports that lead to something else than a broker
gateway     the nodes and their ports; the local addresses for endpoints; which upstream is active
door        accepts clients, reads their first bytes, refuses what is not Kafka
led         whose client a connection is, where a cluster has parts
turns       how many clients may be on their way to their nodes at once
arrivals    clients without a session yet: the TLS handshake, whose they are, the way to their node
sessions    creates the session of a client that has arrived, and ends it
insession   sends kproxy's own requests within a session, between the client's
relogin     logs in again within a session, before the broker ends it
switchable  what a cluster that can be switched needs beside its sessions
writing     the writes of its clients: held before it is switched, and who is in doubt about one
guards      who guards its sessions after it was switched
windup      the end of a session whose client must not lose the answer to a write
onlookers   who looks on at the sessions
places      how many connections fit the limit of open files
tasks       tasks that must not end one another
"""
