"""TLS to brokers and from clients, over sockets that are already connected.

handshakes   which CAs to trust, which certificate to show, and the handshake itself
tlssocket    a TLS connection as the pump uses it
subject      the subject of a certificate, as Java prints it
faults       explains TLS errors to people
stores       reads certificates and keys from PEM, PKCS #12 and JKS files
jks          Java's own key store format

A TLS socket has the calls of a plain one. If the kernel does not take all of an encrypted piece, the rest counts as
not sent; when the pump offers it again, it is not encrypted a second time. A TLS socket needs a window of 32 KiB.
`tlssocket` says why it decrypts in memory.

The certificate of a broker must have the node's advertised host, whichever address kproxy dials.
"""
