"""Opens sockets: resolving, connecting, and TLS.

dial  the routes for an address; connecting directly or through `--via`
tls   TLS to brokers and from clients: key stores, handshakes, the socket that the pump uses
"""
