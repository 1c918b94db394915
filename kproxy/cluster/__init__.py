"""One cluster as clients see it: a local port for each node.

topology    which nodes there are, where they are, which local port each has (pure)
listeners   the sockets that clients connect to: bound before they are advertised, retired when unused
scout       kproxy's own questions to a cluster at start: who is there, which address is which node
reach       which route leads to a node
encryption  TLS towards its brokers and its clients, as configured
gateway     accept; local addresses for endpoints
sessions    TLS of the client, dial, session
places      how many connections fit the limit of open files
"""
