"""Sockets: resolving, connecting, and TLS.

blocking        blocking sockets, for code that does one thing at a time
dial            the routes for an address; connecting directly or through `--via`
freeports       free ports on the loopback address
socketdeadline  a time limit for all operations of a blocking socket together
tls             TLS to brokers and from clients: key stores, handshakes, the socket that the pump uses
"""
