"""Messages about the proxies and SSH servers of `--via`."""

from __future__ import annotations

from functools import partial

from kproxy.base.faults import Fault
from kproxy.base.messages.message import Message, alike

_hop = partial(Message, fault=Fault.HOP_FAILED)
_hops = partial(alike, fault=Fault.HOP_FAILED)

PROXY_PASSWORD_REQUIRED, PROXY_PASSWORD_REFUSED = _hops(
    "Put the user and password into the URL; write special characters as %XX: [Proxies and "
    "SSH](configuration.md#proxies-and-ssh).",
    "{name}: the proxy requires a user and password{answer}: --via {scheme}://USER:PASSWORD@HOST:PORT",
    "{name}: the proxy refuses this user and password{answer}: --via {scheme}://USER:PASSWORD@HOST:PORT",
    reason="proxy-auth",
)
SOCKS_GREETING_TIMEOUT = _hop(
    "{name}: no answer to the SOCKS5 greeting within {seconds:g} s; if the server is an HTTP proxy, use --via http://HOST:PORT",
    "An HTTP proxy waits for the end of a line, which SOCKS does not send. Otherwise the proxy hangs.",
    reason="proxy",
)
HTTP_INSTEAD_OF_SOCKS, SOCKS_INSTEAD_OF_HTTP = _hops(
    "Change the scheme as the message says.",
    "{name}: the server at this address is an HTTP proxy or a web server: use --via http://HOST:PORT",
    "{name}: the server at this address is a SOCKS5 proxy: use --via socks5://HOST:PORT",
    reason="proxy",
)
NOT_SOCKS, NOT_HTTP_PROXY = _hops(
    "Use the other scheme, or another port.",
    "{name}: the server at this address is not a SOCKS5 proxy ({error})",
    "{name}: the server at this address is not an HTTP proxy ({error})",
    reason="proxy",
)
PROXY_CERTIFICATE_UNTRUSTED = _hop(
    "the proxy's certificate is not trusted: {error}; {trust}",
    "Use `https://` with the name in the certificate. For a CA of your own, set `SSL_CERT_FILE=ca.pem`.",
    reason="proxy",
)
PROXY_TLS_FAILED, PROXY_TLS_TIMEOUT = _hops(
    "Try `http://`, as the message says.",
    "TLS with the proxy failed ({error}); it may be an http:// proxy",
    "no TLS handshake with the proxy within {seconds:g} s; it may be an http:// proxy",
    reason="proxy",
)
PROXY_FORBIDS = _hop(
    "{address}: {name} does not allow connections there{answer}",
    "The proxy's rules forbid it. Many proxies allow CONNECT to port 443 only.",
    reason="proxy",
)
_NO_WAY_BEHIND_PROXY = "The proxy resolves the names. Check that it knows this address."
PROXY_NO_ROUTE, PROXY_NO_ROUTE_OR_NAME = alike(
    _NO_WAY_BEHIND_PROXY,
    "{address}: the proxy cannot reach that address ({name} answers {answer})",
    "{address}: the proxy cannot reach that host, or cannot resolve its name (through {name})",
    fault=Fault.NO_ROUTE,
    reason="unreachable",
)
PROXY_ANSWERS_ERROR, PROXY_CONNECT_FAILED = alike(
    _NO_WAY_BEHIND_PROXY,
    "{address}: the proxy could not connect ({name} answers {answer})",
    "{address}: {name} could not connect: {error}",
    fault=Fault.NO_ROUTE,
    reason="proxy",
)
HOP_TIMEOUT = Message(
    "{address}: no answer within {seconds:g} s through {name}",
    "The hop is up, but the address behind it does not answer. Check the firewall, or set a longer "
    "`--connect-timeout`.",
    fault=Fault.FILTERED,
    reason="timeout",
)
SSH_LOGIN_TIMEOUT = _hop(
    "{name}: no login within {seconds:g} s, still trying (host down, firewall, slow server?)",
    "The server is slow, or does not answer. The login continues for up to 30 s. Clients that connect later can use "
    "it.",
    reason="ssh",
)
HOST_KEY_UNKNOWN = _hop(
    "{name}: the host key of {host}{key} is unknown: connect once with ssh and compare the key, or add it to known_hosts",
    "On the machine that runs kproxy, and as the same user, connect once with ssh and compare the key. Or add the "
    "key to `known_hosts`.",
    reason="ssh-host-key",
)
HOST_KEY_CHANGED = _hop(
    "{name}: the host key of {host}{key} is not the one in known_hosts: the connection may be intercepted; if the server has a new key: ssh-keygen -R",
    "Ask the server's administrator. If the key was changed: run `ssh-keygen -R '[HOST]:PORT'`, and connect once "
    "with ssh.",
    reason="ssh-host-key",
)
HOST_KEY_REVOKED = _hop(
    "{name}: the host key of {host} is revoked in known_hosts",
    "An administrator has marked this key as revoked in `known_hosts`.",
    reason="ssh-host-key",
)
SSH_KEYS_REFUSED = _hop(
    "{name}: the server refuses {user}: it accepts no key of the agent or of ~/.ssh; a key with a passphrase must be in the agent (ssh-add)",
    "Check that `ssh -o BatchMode=yes HOST` works in the environment of kproxy. A key with a passphrase must be in "
    "the agent, and `SSH_AUTH_SOCK` must be set.",
    reason="ssh-auth",
)
SSH_FORWARDING_FORBIDDEN = _hop(
    "{address}: {name} forbids forwarding to that address (AllowTcpForwarding, PermitOpen or permitopen on the server)",
    "Change the server's configuration, or the options of the key in `authorized_keys`.",
    reason="ssh-forbidden",
)
SSH_CONNECT_FAILED = Message(
    "{address}: {name} cannot connect to it: {message}",
    "The SSH server reports this about the broker's address. The reason is `refused`, `resolve`, `timeout` or "
    "`unreachable`, as above.",
)
KUBERNETES_NOT_LOGGED_IN, KUBERNETES_LOGIN_REFUSED = _hops(
    "Log in again, as for kubectl. kproxy runs the exec plugin of the kubeconfig, which cannot ask you anything.",
    "{name}: not logged in: the program '{command}' of context '{context}' {error}",
    "{name}: the API server does not accept the login of context '{context}' ({error}): log in again; try 'kubectl get pods'",
    reason="kubernetes-auth",
)
KUBERNETES_FORBIDDEN = _hop(
    "{address}: forbidden: {error}; this role would allow it, with a rolebinding: {role} (through {name})",
    "Ask an administrator of the Kubernetes cluster to create that Role and bind it to you.",
    reason="kubernetes-forbidden",
)
KUBECONFIG_ENTRY_MISSING = _hop(
    "the kubeconfig has no {kind} '{name}' (it has: {names})",
    "Use one of these in `k8s://CONTEXT/NAMESPACE`, or set `KUBECONFIG`.",
    reason="kubernetes",
)
NO_READY_POD = Message(
    "{service} has no ready pod: kubectl -n {namespace} get endpointslices,pods",
    "The pods do not run, or their readiness probes fail.",
    reason="unreachable",
)
NO_DOCKER_NETWORK, NO_DOCKER_ENGINE, DOCKER_PERMISSION_DENIED, DOCKER_TIMEOUT, DOCKER_SLOW = _hops(
    "`--via docker://NETWORK` asks the engine of this machine. `docker network ls` lists the networks; Compose puts "
    "the project's name before them.",
    "there is no network '{network}' (there are: {names})",
    "no engine of Docker or Podman was found (DOCKER_HOST, /var/run/docker.sock, Podman's sockets)",
    "{path}: permission denied: join its group, or use sudo",
    "{name}: the engine gave no answer within {seconds:g} s",
    "{path} is slow: it was asked about {count} containers in {seconds:g} s",
    reason="docker",
)
NO_DOCKER_CONTAINER = Message(
    "{address}: no container of network {network} is called '{host}' (it has: {names})",
    "Use one of these names, or start the container.",
    reason="resolve",
)
DOCKER_UNREACHABLE = Message(
    "{address}: {error} (through {name}); a host that has its containers in a virtual machine (Docker Desktop), or runs them rootless, cannot reach their addresses: run kproxy in a container of that network, and publish its ports",
    "Run kproxy in a container of that network, and publish its ports ([Docker](configuration.md#docker-and-podman)). "
    "The reason is `timeout` or `unreachable`.",
)
SSH_FAILED = _hop(
    "{name}: SSH failed: {message}",
    "asyncssh reports this error, for example: no algorithm in common, or the program of ProxyCommand does not exist.",
    reason="ssh",
)
NOT_SSH = _hop(
    "{name}: the server at this address is not an SSH server, or it hung up ({message})",
    "The port is wrong, or the server has banned this machine for a while.",
    reason="ssh",
)
SSH_CONFIG_MISTAKE = _hop(
    "{name}: ~/.ssh/config or /etc/ssh/ssh_config: {message}",
    "The file has a mistake; the message has the line.",
    reason="ssh",
)
PROXY_JUMP_LOOP, PROXY_COMMAND_BEHIND_HOP = _hops(
    "Correct the configuration as the message says.",
    "{name}: ProxyJump in ~/.ssh/config is a loop",
    "{name}: ProxyCommand in ~/.ssh/config cannot go through another --via; put this one first, or use ProxyJump",
    reason="ssh",
)
SSH_CONNECTION_LOST = Message(
    "{name}: the connection was lost ({reason}); the next client opens another",
    "You need not do anything. Clients reconnect by themselves.",
)
