"""Connecting to an upstream address.

routes       which addresses kproxy dials for an advertised one (pure)
dialer       opens the connections of a cluster through its hops
hops         what the hops have in common
steps        the steps of opening a connection, reported to a caller that shows them
direct       connects from this machine; converts errors of the operating system to UpstreamError
resolve      resolves names to IP addresses
sockets      options of the proxy's TCP sockets
socks        connects through a SOCKS5 proxy
httpconnect  connects through an HTTP proxy
ssh          connects through an SSH server
sshfiles     what the user's own files say about an SSH server
sshfaults    explains SSH errors to people
kubernetes   connects through a Kubernetes API server to its pods
kubeforward  carries the bytes of one port-forward
kubepipe     opens the connection for it
spdy         the protocol of port-forwards whose directions end alone (pure)
kubeapi      asks the API server, along the way before the hop
kubehttp     one HTTP request to it
kubelogin    who asks it: the kubeconfig's credentials, and exec plugins
kubeconfig   reads the kubeconfig, or a pod's service account
kubenames    names in a Kubernetes cluster (pure)
docker       connects to containers by their names in a network of Docker or Podman
engine       asks Docker or Podman, through its socket
bridge       gives a socket to an SSH channel or a TLS connection, which have none
stream       kproxy's own conversation over a connection, plain or TLS
"""
