"""kproxy's messages at start."""

from __future__ import annotations

from kproxy.advice.remedies.own.section import OwnMessage, Section
from kproxy.base.faults import Fault

SECTION = Section(
    title="kproxy at start",
    head=(
        "message",
        "meaning, and what to do",
    ),
    rows=(
        OwnMessage(
            "`--listen …: the port is taken by another process; choose another with --listen HOST:PORT`",
            "Another kproxy may be running.",
        ),
        OwnMessage(
            "`kproxy does not accept the Host of this request; --admin-host allows it`",
            "A request to the admin endpoint used an unknown host name: [Who may "
            "ask](configuration.md#who-may-ask-the-admin-endpoint).",
        ),
        OwnMessage(
            "`does not speak TLS, which --admin-tls-cert demands`, `failed the TLS handshake: …`",
            "A probe or a scraper asks the admin endpoint with `http://`, or does not trust its certificate: "
            "[HTTPS](admin.md#https).",
        ),
        OwnMessage(
            "`… is open to other users (mode …): chmod 600 …`",
            "Others can read the file of `--admin-token-file`, or change it. For a Secret of Kubernetes, set "
            "`defaultMode: 0400`: [The token](admin.md#who-may-ask).",
        ),
        OwnMessage(
            "`another kproxy shares port … and means something else by it: …`; `the port is taken by a process that does not share it (--reuse-port), or of another user;`",
            "kproxies share a port only if they have one configuration and one user: [several kproxies at the same "
            "ports](configuration.md#several-kproxies-at-the-same-ports).",
        ),
        OwnMessage(
            "`routes clients to another upstream than …: set active to that one, or use a copy of its state-dir`",
            "The kproxies that share its ports were switched. This one would send some of their clients to the former upstream.",
        ),
        OwnMessage(
            "`port … cannot be had: …. With --reuse-port it can have no other`; `its id does not fit --node-ports …. With --reuse-port, ids of brokers up to … fit there (a quarter is for controllers): widen the range`",
            "The range and the node's id alone decide the port of a node, so that it is the same in all kproxies. "
            "End the program that has the port, or give all kproxies another `node-ports`.",
        ),
        OwnMessage(
            "`… is taken by another process, perhaps another kproxy`",
            "Use `--admin HOST:PORT` with another port, or `--no-admin`.",
        ),
        OwnMessage(
            "`means TLS, which is off; …`, `means no TLS, but tls is on; …`, `means no login, but sasl is …`",
            "The prefix of a bootstrap server does not turn TLS or SASL on or off. Set the option that the "
            "message names, for example `--tls`, or remove the prefix.",
            fault=Fault.CONFIGURATION,
        ),
        OwnMessage(
            "`no bootstrap server answers: …`",
            "The message continues with the reason, see [below](#reaching-brokers). kproxy asks again until a "
            "server answers. Clients can connect at any time.",
        ),
        OwnMessage(
            "`connected, but no Kafka broker answers there`",
            "The server accepts the connection and sends nothing. It is another service, or a port-forward whose "
            "target is down.",
            fault=Fault.SILENT,
        ),
        OwnMessage(
            "`cannot be reached: …`",
            "kproxy cannot reach this broker from here, and disconnects the clients of this broker. The other "
            "brokers work. The message continues with the reason, see [below](#reaching-brokers).",
        ),
        OwnMessage(
            "`nodes cannot be reached from here. Fix the reason of each first`",
            "The reason is TLS, the login, a hop of `--via` or a limit of this machine: [Reaching "
            "brokers](#reaching-brokers).",
        ),
        OwnMessage(
            "`nodes cannot be reached from here. Say where …: …`",
            "List one reachable address of *each* broker as a bootstrap server, or use `--map`: "
            "[Maps](configuration.md#maps).",
        ),
        OwnMessage(
            "`the brokers list their nodes for authenticated clients only;`",
            "You need not do anything. After the login of the first client, kproxy asks within the client's "
            "session which brokers exist and which broker it has reached. If an address leads to another broker, "
            "kproxy ends the session as if the broker had disconnected. The client's next attempt uses the next "
            "address.",
        ),
        OwnMessage(
            "`the bootstrap servers belong to different clusters: …`",
            "List the servers of one cluster only. kproxy serves no client until then. To serve several "
            "clusters, use [a file](configuration.md#the-file).",
            fault=Fault.MIXED_BOOTSTRAP,
        ),
        OwnMessage(
            "`answers, but it is another cluster (id …): kproxy serves the cluster with the id …`",
            "Another Kafka cluster answers at that address, perhaps one on this machine. kproxy uses the next "
            "address. If you have created the cluster again, restart kproxy; with `--cluster-id`, also set the "
            "new id.",
            fault=Fault.WRONG_CLUSTER,
        ),
        OwnMessage(
            "`answers, but does not say which cluster it belongs to, and --cluster-id requires one`",
            "The broker has no cluster id (Kafka before 0.10.1). kproxy uses the next address. Remove "
            "`--cluster-id` if you cannot upgrade the brokers.",
            fault=Fault.BROKER_TOO_OLD,
        ),
        OwnMessage(
            "`answers, but it is … of this cluster, not …`",
            "The address leads to another broker: a port-forward or `--map` is mixed up, or the address is a "
            "load balancer. kproxy uses the next address.",
            fault=Fault.WRONG_NODE,
        ),
        OwnMessage(
            "`answers, but kproxy cannot tell which broker it is: …`",
            "Give kproxy's user one of the rights in the message, or set the address of each broker with `--map`.",
        ),
        OwnMessage(
            "`kproxy assumes that … is this broker: …`",
            "kproxy has checked that the cluster is the right one, but it cannot check which broker answers at "
            "the address. The message says which right would let it check.",
        ),
        OwnMessage(
            "`nodes (--ready-requires …)`",
            "kproxy cannot reach some nodes. The log lines above say which nodes, and why.",
        ),
        OwnMessage(
            "`--map … matches no node of cluster …`",
            "The map has a spelling mistake, or the broker is currently down. Compare the map with the "
            "advertised addresses in the lines around it.",
            fault=Fault.CONFIGURATION,
        ),
        OwnMessage(
            "`means every interface and cannot be advertised: kproxy advertises to each client the address that the "
            "client connected to …`",
            "This is correct for clients in the same network. For other clients, such as those that connect "
            "through published ports, set `--advertise HOST`.",
        ),
        OwnMessage(
            "`has the local port … instead of …: …`, `it is taken by another process`",
            "If clients use kproxy as their bootstrap server, you need not do anything. If you have published or "
            "opened node ports by number, choose another window with `--node-ports`.",
        ),
        OwnMessage(
            "`it is the local end of a connection to …; keep --listen and --node-ports below the ports that the "
            "system assigns to connections`",
            "The same. `sysctl net.ipv4.ip_local_port_range` shows these ports. kproxy's default ports are below "
            "the range of Linux (32768 and up).",
        ),
        OwnMessage(
            "`--listen …: the port is the local end of a connection to …; choose another with --listen HOST:PORT`",
            "The system uses this port for a connection. `sysctl net.ipv4.ip_local_port_range` shows the range "
            "of such ports.",
        ),
        OwnMessage(
            "`has the local port … outside --node-ports …, where no port is free: widen the range`",
            "There are more nodes than ports. Clients on this machine still work. If you publish ports or open "
            "them in a firewall, widen `--node-ports`.",
        ),
        OwnMessage(
            "`not ready after … s, so the command is not run`",
            "`kproxy exec` gave up. The reason follows, or is in the lines above. If the network is slow, use a longer "
            "`--timeout`.",
        ),
        OwnMessage(
            "`no kproxy answers at … (--admin): …`",
            "`kproxy wait` got no answer. `kproxy run` has ended, has another `--admin`, or has `--no-admin`. If the "
            "message ends with `--admin-ca FILE says whom to trust`, give it the CA of kproxy's certificate.",
        ),
        OwnMessage(
            "`--exit-with: there is no process …; allowed: …`",
            "The process has already ended, or is in another container. Use `shareProcessNamespace`, or a path "
            "or a URL instead.",
        ),
        OwnMessage(
            "`the file exists`, at once",
            "The file exists from an earlier run. This is correct after a restart of a pod's sidecar. Elsewhere, "
            "remove the file first.",
        ),
        OwnMessage(
            "`…, has no kproxy: …`",
            "`kproxy.spark.attach`: install kproxy in the Python that Spark's executors use: [What it "
            "needs](spark.md#what-it-needs).",
        ),
        OwnMessage(
            "`no kproxy for executor …: …`, `no kproxy for this executor: …`",
            "Spark's plugin could not start kproxy on the host of an executor. The message continues with the reason. "
            "Kafka tasks of this executor fail. `spark.kproxy.strict=true` ends the application at once instead, if the "
            "reason will not go away by itself: [Failures](spark.md#failures).",
        ),
        OwnMessage(
            "`no kproxy for this driver: …`",
            "Spark's plugin could not start kproxy on the driver's host: [Failures](spark.md#failures).",
        ),
        OwnMessage(
            "`… cannot run kproxy (…)`, `there is no Python … (…)`, `install kproxy there, or set …`",
            "Spark's plugin runs kproxy with this Python, and cannot. Install kproxy into it, or set the named key to the "
            "path of a Python 3.11 or later that has kproxy, on each host: [What it needs](spark.md#what-it-needs).",
        ),
        OwnMessage(
            "`the keeper of kproxy (process …) has ended; kproxy is started again`",
            "The process that runs kproxy beside Spark was killed. The Spark processes that use it restart it within a second.",
        ),
        OwnMessage(
            "`this Spark session has been stopped: create another one, and give attach that one`",
            "`kproxy.spark.attach` needs a session that runs.",
        ),
        OwnMessage(
            "`kproxy with another configuration listens on … for another application: …; …`",
            "`kproxy.spark.attach`: give each configuration its own `listen`, or none: then each configuration "
            "gets its own port.",
        ),
        OwnMessage(
            "`Spark has no executor after … s, so kproxy runs on the driver's host only`",
            "`kproxy.spark.attach`: look into Spark's own log for the reason, or raise `timeout`.",
        ),
        OwnMessage(
            "`executor … ran no task within … s, so it has no kproxy`",
            "`kproxy.spark.attach`: other jobs had all slots. Call it before them, or use the "
            "[plugin](spark.md#recipe-1-the-job-calls-attach), which needs no slot.",
        ),
        OwnMessage(
            "`the configuration has a secret (…), and spark.authenticate is not true, …`",
            "`kproxy.spark.attach`: see [Secrets](spark.md#secrets).",
        ),
        OwnMessage(
            "`kproxy is not ready after … s: …`",
            "`kproxy.spark.attach`: the message begins with the host, and continues with the reason.",
        ),
        OwnMessage(
            "`did you mean …?` and other mistakes of configuration",
            "kproxy reports all mistakes at once, with exit code 2: [Mistakes](configuration.md#mistakes).",
            fault=Fault.CONFIGURATION,
        ),
    ),
)
