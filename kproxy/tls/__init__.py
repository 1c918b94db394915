"""TLS towards brokers and towards clients, over sockets that are connected already.

handshakes   whom to trust, what to show, the handshake itself
tlssocket    a TLS connection as the pump uses it
faults       what went wrong with TLS, for people
stores       certificates and keys out of PEM, PKCS #12 and JKS files
jks          Java's own key store format
"""
