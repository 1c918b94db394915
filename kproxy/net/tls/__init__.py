"""TLS to brokers and from clients, over sockets that are already connected.

handshakes   which CAs to trust, which certificate to show, and the handshake itself
tlssocket    a TLS connection as the pump uses it
faults       explains TLS errors to people
stores       reads certificates and keys from PEM, PKCS #12 and JKS files
jks          Java's own key store format
"""
