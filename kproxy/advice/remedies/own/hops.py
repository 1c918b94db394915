"""kproxy's messages about the proxies and SSH servers of `--via`."""

from __future__ import annotations

from kproxy.advice.remedies.own.section import OwnMessage, Section
from kproxy.base.faults import Fault

SECTION = Section(
    title="Through `--via`",
    level=3,
    head=(
        "message",
        "reason",
        "meaning, and what to do",
    ),
    before=(
        "If a message begins with `--via …:`, the hop has the problem. If it begins with a broker's address, the problem is\n"
        "between the hop and the broker."
    ),
    rows=(
        OwnMessage(
            "`--via …` and one of the messages above",
            "kproxy cannot reach the hop itself; see above.",
            reason="`proxy`, `ssh`",
            fault=Fault.HOP_FAILED,
        ),
        OwnMessage(
            "`the proxy requires a user and password`, `the proxy refuses this user and password`",
            "Put the user and password into the URL; write special characters as %XX: [Proxies and "
            "SSH](configuration.md#proxies-and-ssh).",
            reason="`proxy-auth`",
            fault=Fault.HOP_FAILED,
        ),
        OwnMessage(
            "`no answer to the SOCKS5 greeting within … s; if the server is an HTTP proxy, use --via http://HOST:PORT`",
            "An HTTP proxy waits for the end of a line, which SOCKS does not send. Otherwise the proxy hangs.",
            reason="`proxy`",
            fault=Fault.HOP_FAILED,
        ),
        OwnMessage(
            "`the server at this address is an HTTP proxy or a web server: use --via http://HOST:PORT`, `the "
            "server at this address is a SOCKS5 proxy: use --via socks5://HOST:PORT`",
            "Change the scheme as the message says.",
            reason="`proxy`",
            fault=Fault.HOP_FAILED,
        ),
        OwnMessage(
            "`the server at this address is not a SOCKS5 proxy (…)`, `the server at this address is not an HTTP "
            "proxy (…)`",
            "Use the other scheme, or another port.",
            reason="`proxy`",
            fault=Fault.HOP_FAILED,
        ),
        OwnMessage(
            "`the proxy's certificate is not trusted: …`",
            "Use `https://` with the name in the certificate. For a CA of your own, set `SSL_CERT_FILE=ca.pem`.",
            reason="`proxy`",
            fault=Fault.HOP_FAILED,
        ),
        OwnMessage(
            "`TLS with the proxy failed (…); it may be an http:// proxy`, `no TLS handshake with the proxy "
            "within … s;`",
            "Try `http://`, as the message says.",
            reason="`proxy`",
            fault=Fault.HOP_FAILED,
        ),
        OwnMessage(
            "`does not allow connections there`",
            "The proxy's rules forbid it. Many proxies allow CONNECT to port 443 only.",
            reason="`proxy`",
            fault=Fault.HOP_FAILED,
        ),
        OwnMessage(
            "`the proxy cannot reach that address`, `the proxy could not connect`, `the proxy cannot reach that "
            "host, or cannot resolve its name`, `could not connect: …`",
            "The proxy resolves the names. Check that it knows this address.",
            reason="`unreachable`, `proxy`",
            fault=Fault.NO_ROUTE,
        ),
        OwnMessage(
            "`no answer within … s through …`",
            "The hop is up, but the address behind it does not answer. Check the firewall, or set a longer "
            "`--connect-timeout`.",
            reason="`timeout`",
            fault=Fault.FILTERED,
        ),
        OwnMessage(
            "`no login within … s, still trying`",
            "The server is slow, or does not answer. The login continues for up to 30 s. Clients that connect "
            "later can use it.",
            reason="`ssh`",
            fault=Fault.HOP_FAILED,
        ),
        OwnMessage(
            "`the host key of … is unknown`",
            "On the machine that runs kproxy, and as the same user, connect once with ssh and compare the key. "
            "Or add the key to `known_hosts`.",
            reason="`ssh-host-key`",
            fault=Fault.HOP_FAILED,
        ),
        OwnMessage(
            "`the host key of … is not the one in known_hosts`",
            "Ask the server's administrator. If the key was changed: run `ssh-keygen -R '[HOST]:PORT'`, and "
            "connect once with ssh.",
            reason="`ssh-host-key`",
            fault=Fault.HOP_FAILED,
        ),
        OwnMessage(
            "`is revoked in known_hosts`",
            "An administrator has marked this key as revoked in `known_hosts`.",
            reason="`ssh-host-key`",
            fault=Fault.HOP_FAILED,
        ),
        OwnMessage(
            "`it accepts no key of the agent or of ~/.ssh`",
            "Check that `ssh -o BatchMode=yes HOST` works in the environment of kproxy. A key with a passphrase "
            "must be in the agent, and `SSH_AUTH_SOCK` must be set.",
            reason="`ssh-auth`",
            fault=Fault.HOP_FAILED,
        ),
        OwnMessage(
            "`forbids forwarding to that address (AllowTcpForwarding, PermitOpen or permitopen on the server)`",
            "Change the server's configuration, or the options of the key in `authorized_keys`.",
            reason="`ssh-forbidden`",
            fault=Fault.HOP_FAILED,
        ),
        OwnMessage(
            "`cannot connect to it: …`",
            "The SSH server reports this about the broker's address.",
            reason="as above",
        ),
        OwnMessage(
            "`not logged in: the program '…' of context '…' …`, `the API server does not accept the login of context "
            "'…' (…)`",
            "Log in again, as for kubectl. kproxy runs the exec plugin of the kubeconfig, which cannot ask you anything.",
            reason="`kubernetes-auth`",
            fault=Fault.HOP_FAILED,
        ),
        OwnMessage(
            "`forbidden: …; this role would allow it, with a rolebinding: …`",
            "Ask an administrator of the Kubernetes cluster to create that Role and bind it to you.",
            reason="`kubernetes-forbidden`",
            fault=Fault.HOP_FAILED,
        ),
        OwnMessage(
            "`the kubeconfig has no … '…' (it has: …)`",
            "Use one of these in `k8s://CONTEXT/NAMESPACE`, or set `KUBECONFIG`.",
            reason="`kubernetes`",
            fault=Fault.HOP_FAILED,
        ),
        OwnMessage(
            "`has no ready pod: kubectl -n … get endpointslices,pods`",
            "The pods do not run, or their readiness probes fail.",
            reason="`unreachable`",
        ),
        OwnMessage(
            "`there is no network '…' (there are: …)`, `no engine of Docker or Podman was found (…)`, `permission "
            "denied: join its group, or use sudo`, `the engine gave no answer within … s`, `is slow: it was asked about … "
            "containers in … s`",
            "`--via docker://NETWORK` asks the engine of this machine. `docker network ls` lists the networks; Compose puts "
            "the project's name before them.",
            reason="`docker`",
            fault=Fault.HOP_FAILED,
        ),
        OwnMessage(
            "`no container of network … is called '…' (it has: …)`",
            "Use one of these names, or start the container.",
            reason="`resolve`",
        ),
        OwnMessage(
            "`a host that has its containers in a virtual machine (Docker Desktop), or runs them rootless, cannot reach "
            "their addresses: …`",
            "Run kproxy in a container of that network, and publish its ports ([Docker](configuration.md#docker-and-podman)).",
            reason="`timeout`, `unreachable`",
        ),
        OwnMessage(
            "`SSH failed: …`",
            "asyncssh reports this error, for example: no algorithm in common, or the program of ProxyCommand "
            "does not exist.",
            reason="`ssh`",
            fault=Fault.HOP_FAILED,
        ),
        OwnMessage(
            "`the server at this address is not an SSH server, or it hung up (…)`",
            "The port is wrong, or the server has banned this machine for a while.",
            reason="`ssh`",
            fault=Fault.HOP_FAILED,
        ),
        OwnMessage(
            "`~/.ssh/config or /etc/ssh/ssh_config: …`",
            "The file has a mistake; the message has the line.",
            reason="`ssh`",
            fault=Fault.HOP_FAILED,
        ),
        OwnMessage(
            "`ProxyJump in ~/.ssh/config is a loop`, `ProxyCommand in ~/.ssh/config cannot go through another --via`",
            "Correct the configuration as the message says.",
            reason="`ssh`",
            fault=Fault.HOP_FAILED,
        ),
        OwnMessage(
            "`the connection was lost (…); the next client opens another`",
            "You need not do anything. Clients reconnect by themselves.",
        ),
    ),
)
