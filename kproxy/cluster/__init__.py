"""One cluster as clients see it: a local port for each node.

topology    the nodes, their advertised addresses and their local ports (pure)
listeners   the sockets that clients connect to: bound before kproxy advertises them, closed when unused
known       what kproxy has found out: which cluster it is, which node each address leads to, each node's route (pure)
identity    asks which cluster and which node answers at an upstream address, and finds the proof
opening     opens one upstream connection: connect, TLS, login
meeting     opens a connection, asks who answers, and judges whether it is the right node
reach       which route leads to a node
explore     finds the nodes and their routes, at start and in the background
report      the state of the cluster at one moment, for `kproxy.status`
encryption  TLS to the cluster's brokers and from its clients, as configured
gateway     the nodes and their ports; the local addresses for endpoints
door        accepts clients, reads their first bytes, refuses what is not Kafka
sessions    does TLS with the client, dials, creates the session
onlookers   who looks on at the sessions
places      how many connections fit the limit of open files
tasks       tasks that must not end one another
"""
