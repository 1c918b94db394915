"""Reaching an upstream address.

routes       which addresses to dial for an advertised one (pure)
dialer       opening a cluster's connections: its hops in a row
hops         what hops have in common
direct       the first of them, this machine: connecting; operating system errors become UpstreamError
resolve      names to IP addresses
sockets      options of the proxy's TCP sockets
socks        through a SOCKS5 proxy
httpconnect  through an HTTP proxy
ssh          through an SSH server; sshfiles has what the user's files say of it, sshfaults what went wrong
bridge       a socket for what has none, an SSH channel or TLS
stream       kproxy's own conversation over a connection, plain or TLS
tls          TLS to brokers and from clients: whom to trust, what to show, handshakes
tlssocket    a TLS connection as the pump uses it
tlserrors    what went wrong with TLS, for people
stores       certificates and keys out of PEM, PKCS #12 and JKS files
jks          Java's own key store format
"""
