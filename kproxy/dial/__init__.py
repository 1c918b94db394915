"""Reaching an upstream address.

routes       which addresses to dial for an advertised one (pure)
dialer       opening a cluster's connections: its hops in a row
hops         what hops have in common
steps        the steps in which a connection is opened, for those who show them
direct       the first of them, this machine: connecting; operating system errors become UpstreamError
resolve      names to IP addresses
sockets      options of the proxy's TCP sockets
socks        through a SOCKS5 proxy
httpconnect  through an HTTP proxy
ssh          through an SSH server
sshfiles     what the user's own files say of an SSH server
sshfaults    what went wrong with SSH, for people
bridge       a socket for what has none, an SSH channel or TLS
stream       kproxy's own conversation over a connection, plain or TLS
"""
