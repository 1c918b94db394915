"""Connecting to an upstream address.

routes       which addresses kproxy dials for an advertised one (pure)
dialer       opens the connections of a cluster through its hops
forwardcommands  keeps the commands running that forward local ports to nodes
forwardprocess   one process of such a command
connector    the interface of everything that opens connections, its deadline, and the steps that it reports
direct       connects from this machine; converts errors of the operating system to UpstreamError
resolver     resolves names to IP addresses
sockets      options of the proxy's TCP sockets
socks        connects through a SOCKS5 proxy
httpconnect  connects through an HTTP proxy
ssh          connects through an SSH server
sshfiles     the settings of an SSH server in the user's own files
kubernetes   connects through a Kubernetes API server to its pods
kubeforward  relays the bytes of one port-forward
kubepipe     opens the connection that carries a port-forward
spdy         the framing of a port-forward in which each direction can end alone (pure)
kubeapi      sends requests to the API server, through the hops before it
kubehttp     one HTTP request to the API server
kubelogin    the credentials for the API server: those of the kubeconfig, or of its exec plugin
kubeconfig   reads the kubeconfig, or a pod's service account
kubenames    names in a Kubernetes cluster (pure)
docker       connects to containers by their names in a network of Docker or Podman
engine       asks Docker or Podman, through its socket
bridge       gives a socket to an SSH channel or a TLS connection, which have none
stream       kproxy's own conversation over a connection, plain or TLS

`kproxy.proxy.cluster.nodedialer` decides which address to dial, and the cluster's `Dialer` opens the connection. A
`Dialer` is a chain of connectors with the same method `connect(address, deadline)`; each reaches its own server through
the connector before it. The first is `DirectConnector`; one for each hop of `--via` follows. So chains of hops need no
code of their own. The result is always a real, non-blocking socket, because the data plane moves bytes between sockets.

 * SSH channels and TLS to a proxy are no sockets. A `bridge` gives the data plane one end of a socket pair, and moves
   the bytes between the other end and the transport, with back-pressure and half-close (TLS has no half-close).
   asyncssh and the bridge carry 200 to 360 MB/s, as much as `ssh -L` on the same machine.
 * asyncssh in place of the `ssh` program gives an error for each connection, opens a lost connection again, and needs
   no installed program. It does not know all of ssh_config; docs/configuration.md lists what is missing. kproxy reads
   known_hosts itself, because asyncssh would take `UserKnownHostsFile none` for "trust any host".
 * kproxy speaks to a Kubernetes API server itself, with h11 and websockets, and reads the kubeconfig itself. kr8s and
   kubernetes_asyncio open their connections themselves, so these could not go through another hop. Each upstream
   connection has a connection to the API server of its own: Kubernetes' SPDY has no flow control, so TCP's
   back-pressure holds only that one.
 * Three protocols carry a port-forward. `kubepipe` offers SPDY in a WebSocket (KEP-4006) and `v4.channel.k8s.io` in
   one handshake, and the server takes the best that it has. If the server, a proxy or a role refuses WebSockets,
   `kubeapi` asks for the upgrade of HTTP to SPDY, and remembers what worked. `kubeforward` carries the bytes over
   either; `spdy` has the frames, as Python has no maintained library. With SPDY, each direction ends alone, as far as
   the node lets it: containerd 2.0 does not pass the client's end on to the pod, and ends both directions 1 s later.
   Other nodes may do neither, so kproxy ends the connection if the pod is silent for 60 s after the client's end.
 * A `ViaError` says that a hop failed, so kproxy tries no other route. Any other `UpstreamError` is about the address.
 * kproxy does not dial what it listens on itself: bootstrap servers, nodes, forwards and the admin endpoint of any
   cluster (`kproxy.proxy.cluster.ownaddresses`). What counts is the IP address after resolution: `localhost`, `0`,
   `0x7f.1`, `0.0.0.0` and `::ffff:127.0.0.1` all lead to this machine.
 * kproxy never looks up an IP address. Each question to the resolver has a daemon thread, at most 32 at once; callers
   that ask for the same name share one. An executor's threads would be used up by a hanging resolver, and would delay
   the exit. An answer is kept for 3 s; one that led nowhere for 1 s, and for up to 5 s while it stays the same,
   however many dials fail.
 * kproxy imports the library of a hop with the first hop that needs it. SSH costs 15 MiB; the others almost nothing.
"""
