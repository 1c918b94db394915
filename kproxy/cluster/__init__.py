"""One cluster as clients see it: a local port for each node.

topology    which nodes there are, where they are, which local port each has (pure)
listeners   the sockets that clients connect to: bound before they are advertised, retired when unused
known       what has been found out: which cluster it is, which address leads to whom, how each node is reached (pure)
identity    whom an upstream address leads to: which cluster, which node, and what proves it
opening     one upstream connection: connect, TLS, login
meeting     whoever is at the end of a route: asked and judged
reach       which route leads to a node
explore     at start and in the background: who is there, how is each node reached
report      its state at one moment, for those who show it
encryption  TLS towards its brokers and its clients, as configured
gateway     its nodes and their ports; local addresses for endpoints
door        accept, first bytes, refusals
sessions    TLS of the client, dial, session
places      how many connections fit the limit of open files
tasks       tasks that must not end one another
"""
