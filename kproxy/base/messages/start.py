"""Messages at start, of `kproxy run`, `exec`, `wait` and of kproxy beside Spark."""

from __future__ import annotations

from kproxy.base.faults import Fault
from kproxy.base.messages.message import Message, alike

PORT_TAKEN = Message(
    "--listen {listen}: the port is taken by another process; choose another with --listen HOST:PORT",
    "Another kproxy may be running.",
)
HOST_NOT_ALLOWED = Message(
    "kproxy does not accept the Host of this request; --admin-host allows it",
    "A request to the admin endpoint used an unknown host name: [Who may "
    "ask](configuration.md#who-may-ask-the-admin-endpoint).",
)
ADMIN_PEER_NOT_TLS, ADMIN_HANDSHAKE_FAILED = alike(
    "A probe or a scraper asks the admin endpoint with `http://`, or does not trust its certificate: "
    "[HTTPS](admin.md#https).",
    "does not speak TLS, which --admin-tls-cert demands",
    "failed the TLS handshake: {error}",
)
FILE_OPEN = Message(
    "{path} is open to other users (mode {mode:04o}): chmod 600 {path}",
    "Other users can read or change a file with secrets: that of `--admin-token-file`, or the users file. For a Secret "
    "of Kubernetes, set `defaultMode: 0400`: [The token](admin.md#who-may-ask).",
)
PORT_SHARED_OTHERWISE, PORT_NOT_SHARED = alike(
    "kproxies share a port only if they have one configuration and one user: [several kproxies at the same "
    "ports](configuration.md#several-kproxies-at-the-same-ports).",
    "cluster {cluster}: another kproxy shares port {port} and means something else by it: all that share a port (--reuse-port) need the same listen, node-ports, advertise, sni, forward and upstreams",
    "--listen {listen}: the port is taken by a process that does not share it (--reuse-port), or of another user; choose another with --listen HOST:PORT",
)
SHARED_PORT_SWITCHED = Message(
    "cluster {name}: another kproxy that shares port {port} routes clients to another upstream than {active}: set active to that one, or use a copy of its state-dir",
    "The kproxies that share its ports were switched. This one would send some of their clients to the former "
    "upstream.",
)
NODE_PORT_UNAVAILABLE, NODE_ID_OUTSIDE_PORTS = alike(
    "The range and the node's id alone decide the port of a node, so that it is the same in all kproxies. End the "
    "program that has the port, or give all kproxies another `node-ports`.",
    "port {port} cannot be had: {problem}. With --reuse-port it can have no other",
    "its id does not fit --node-ports {first}-{last}. With --reuse-port, ids of brokers up to {highest} fit there (a quarter is for controllers): widen the range",
)
ADMIN_PORT_TAKEN = Message(
    "{address} is taken by another process, perhaps another kproxy",
    "Use `--admin HOST:PORT` with another port, or `--no-admin`.",
)
PREFIX_NEEDS_TLS, PREFIX_FORBIDS_TLS, PREFIX_FORBIDS_LOGIN = alike(
    "The prefix of a bootstrap server does not turn TLS or SASL on or off. Set the option that the message names, "
    "for example `--tls`, or remove the prefix.",
    "means TLS, which is off; allowed: with --tls (tls: true), or HOST:PORT alone",
    "means no TLS, but tls is on; allowed: with --no-tls (tls: false), or HOST:PORT alone",
    "means no login, but sasl is {sasl}",
    fault=Fault.CONFIGURATION,
)
NO_BOOTSTRAP_SERVER = Message(
    "no bootstrap server answers: {errors}",
    "The message continues with the reason, see [below](#reaching-brokers). kproxy asks again until a server "
    "answers. Clients can connect at any time.",
    reason="other",
)
NO_BROKER_ANSWERS = Message(
    "connected, but no Kafka broker answers there",
    "The server accepts the connection and sends nothing. It is another service, or a port-forward whose target is "
    "down.",
    fault=Fault.SILENT,
    reason="timeout",
)
CANNOT_BE_REACHED = Message(
    "cannot be reached: {problem}",
    "kproxy cannot reach this broker from here, and disconnects the clients of this broker. The other brokers work. "
    "The message continues with the reason, see [below](#reaching-brokers).",
)
NODES_UNREACHABLE_FIX = Message(
    "{count} nodes cannot be reached from here. Fix the reason of each first",
    "The reason is TLS, the login, a hop of `--via` or a limit of this machine: [Reaching brokers](#reaching-brokers).",
)
NODES_UNREACHABLE_MAP = Message(
    "{count} nodes cannot be reached from here. Say where {which}: {maps}. Or list one reachable address of each broker in --bootstrap-servers; kproxy finds out which is which",
    "List one reachable address of *each* broker as a bootstrap server, or use `--map`: [Maps](configuration.md#maps).",
)
NODES_AFTER_LOGIN = Message(
    "cluster {cluster}: the brokers list their nodes for authenticated clients only; kproxy learns the nodes, and checks which broker it has reached, when a client has logged in",
    "You need not do anything. After the login of the first client, kproxy asks within the client's session which "
    "brokers exist and which broker it has reached. If an address leads to another broker, kproxy ends the session "
    "as if the broker had disconnected. The client's next attempt uses the next address.",
)
BOOTSTRAP_MIXED = Message(
    "the bootstrap servers belong to different clusters: {named}; list those of one cluster only",
    "List the servers of one cluster only. kproxy serves no client until then. To serve several clusters, use [a "
    "file](configuration.md#the-file).",
    fault=Fault.MIXED_BOOTSTRAP,
)
ANOTHER_CLUSTER = Message(
    "{address} answers, but it is another cluster (id {cluster_id}): kproxy serves the cluster with the id {served_id}, {source}",
    "Another Kafka cluster answers at that address, perhaps one on this machine. kproxy uses the next address. If "
    "you have created the cluster again, `kproxy reload --accept-cluster` lets kproxy serve the new one, and so does a "
    "restart; with `--cluster-id`, set the new id, and restart kproxy.",
    fault=Fault.WRONG_CLUSTER,
    reason="wrong-cluster",
)
CLUSTER_REPLACED = Message(
    "another Kafka cluster (id {cluster_id}) answers at all bootstrap servers that answer, and kproxy serves the one with the id {served_id}, {source}",
    "kproxy disconnects clients until the served cluster answers again. If the cluster was created again, such as a test "
    "cluster whose volumes were deleted, the command in the message lets kproxy serve the new one. It needs "
    "`--admin-reload`; without it, restart kproxy. `--accept-new-cluster-after` lets kproxy do that by itself: [A cluster "
    "that is created again](configuration.md#a-cluster-that-is-created-again). If it was not created again, correct the "
    "bootstrap servers, or what leads to them.",
    fault=Fault.WRONG_CLUSTER,
    reason="wrong-cluster",
)
NEW_CLUSTER_AWAITED = Message(
    "cluster {cluster}: kproxy does not serve the new Kafka cluster yet (--accept-new-cluster-after): {problem}",
    "`--accept-new-cluster-after` lets kproxy serve a new cluster only when all bootstrap servers belong to it and no "
    "broker of the former one answers. Stop the former cluster, or remove bootstrap servers that no longer exist. `kproxy "
    "reload --accept-cluster` does not wait for that.",
)
FORMER_CLUSTER_ANSWERS = Message(
    "{node} of the former cluster still answers",
    "`--accept-new-cluster-after` waits until no broker of the former cluster answers. Stop that cluster. `kproxy reload "
    "--accept-cluster` does not wait for that.",
)
CLUSTER_ACCEPTED = Message(
    "cluster {cluster}: serves the Kafka cluster with the id {cluster_id} from now on ({reason}), and no longer the one with the id {served_id}; closed {sessions} sessions",
    "A new Kafka cluster has taken the place of the former one, and `kproxy reload --accept-cluster` or "
    "`--accept-new-cluster-after` has allowed kproxy to serve it. kproxy has forgotten the nodes of the former cluster "
    "and closed all sessions, so clients connect again.",
)
CLUSTER_OF_SWITCH = Message(
    "cluster {name} has two upstreams, and a switch relies on their cluster ids: stop the migration, and restart kproxy to serve another Kafka cluster",
    "A migration records the ids of both clusters, and what was copied and switched holds for these two only. So kproxy "
    "replaces neither of them while it runs.",
)
CLUSTER_ID_CONFIGURED = Message(
    "cluster {name}: --cluster-id is {cluster_id}, and kproxy serves no other cluster: set the new id, and restart kproxy",
    "`--cluster-id` names the only cluster that kproxy may serve, so neither `kproxy reload --accept-cluster` nor "
    "`--accept-new-cluster-after` changes it.",
)
CLUSTER_ID_SHARED = Message(
    "cluster {name}: other kproxies share its ports (--reuse-port) and serve the same Kafka cluster: restart all of them to serve another one",
    "A port means the same in all kproxies that share it, so one of them alone cannot serve another cluster.",
)
CLUSTER_ID_UNCHANGED = Message(
    "nothing has changed: the bootstrap servers that answer belong to the cluster that kproxy serves (id {cluster_id})",
    "`kproxy reload --accept-cluster` has found no other cluster. You need not do anything.",
)
NO_CLUSTER_ID_TO_ACCEPT = Message(
    "{address} answers, but does not say which cluster it belongs to, so kproxy keeps to the cluster that it serves; restart kproxy to serve this one",
    "The broker has no cluster id (Kafka before 0.10.1). A restart of kproxy forgets the former cluster.",
    fault=Fault.BROKER_TOO_OLD,
    reason="wrong-cluster",
)
CLUSTER_IDS_AFTER_LOGIN = Message(
    "the bootstrap servers say which cluster they belong to only after a login, and kproxy has no credentials: restart kproxy to serve another cluster",
    "The brokers list their cluster for authenticated clients only. Give kproxy credentials (`--sasl`), or restart it: the "
    "first client that logs in then determines the cluster.",
)
NO_CLUSTER_ID = Message(
    "{address} answers, but does not say which cluster it belongs to, and --cluster-id requires one",
    "The broker has no cluster id (Kafka before 0.10.1). kproxy uses the next address. Remove `--cluster-id` if you "
    "cannot upgrade the brokers.",
    fault=Fault.BROKER_TOO_OLD,
    reason="wrong-cluster",
)
ANOTHER_NODE = Message(
    "{address} answers, but it is {node} of this cluster, not {expected}",
    "The address leads to another broker: a port-forward or `--map` is mixed up, or the address is a load balancer. "
    "kproxy uses the next address.",
    fault=Fault.WRONG_NODE,
    reason="wrong-node",
)
NO_EXPECTED_NODE = Message(
    "{address} answers, but it refuses to be {expected}",
    "The address leads to another broker of the cluster, which says so (REBOOTSTRAP_REQUIRED), and does not say which "
    "one it is. kproxy uses the next address.",
    fault=Fault.WRONG_NODE,
    reason="wrong-node",
)
CONTROLLER_ANSWERS = Message(
    "{address} answers, but it is a controller, and clients of this cluster need a broker",
    "A bootstrap server is a KRaft controller (`controller.listener.names`, often port 9093): no client of topics can use "
    "it. Other bootstrap servers are brokers. Give kproxy the listeners of brokers only. For "
    "`--bootstrap-controller`, start a kproxy with the controllers alone.",
    fault=Fault.WRONG_NODE,
    reason="wrong-node",
)
CONTROLLERS_ONLY = Message(
    "cluster {cluster}: every bootstrap server that answers is a controller: tools with --bootstrap-controller can use it, producers and consumers cannot",
    "The address is that of a KRaft controller (`controller.listener.names`, often port 9093). Give kproxy the address of "
    "a broker's listener, often port 9092. For `--bootstrap-controller` you need not do anything.",
    fault=Fault.WRONG_NODE,
)
CHECK_NOT_USABLE = Message(
    "{address}: kproxy does not believe what this broker answers about its identity: {problem}. For five minutes kproxy finds out in other ways which broker it is",
    "The broker offers ApiVersions 5, in which brokers since Kafka 4.4 refuse to be another node or of another cluster, "
    "and does not answer as they do. It is perhaps a proxy, or other software than Kafka's. You need not do anything, if "
    "kproxy shows in another way which broker it has reached: [What kproxy verifies](security.md#what-kproxy-verifies).",
)
NODE_UNKNOWN = Message(
    "{address} answers, but kproxy cannot tell which broker it is: give the user DescribeConfigs on the cluster, or Describe on a topic, or set --map node:{node}=HOST:PORT",
    "Give kproxy's user one of the rights in the message, or set the address of each broker with `--map`.",
    reason="unknown-node",
)
NODE_ASSUMED = Message(
    "{node}: kproxy assumes that {dial} is this broker: the cluster is the right one, but kproxy cannot tell which broker it is. To let kproxy check, give the user DescribeConfigs on the cluster, or Describe on a topic",
    "kproxy has checked that the cluster is the right one, but it cannot check which broker answers at the address. "
    "The message says which right would let it check.",
)
READY_WITH = Message(
    "ready with {reached} of {nodes} nodes (--ready-requires {option})",
    "kproxy cannot reach some nodes. The log lines above say which nodes, and why.",
)
MAP_UNUSED = Message(
    "--map {address} matches no node and no bootstrap server of cluster {cluster}",
    "The map has a spelling mistake, or the broker is currently down. Compare the map with the advertised addresses "
    "in the lines around it.",
    fault=Fault.CONFIGURATION,
)
WILDCARD_NOT_ADVERTISED = Message(
    "--listen {listen} means every interface and cannot be advertised: kproxy advertises to each client the address that the client connected to ({host}). If clients must use another, set --advertise HOST",
    "This is correct for clients in the same network. For other clients, such as those that connect through "
    "published ports, set `--advertise HOST`.",
)
OTHER_LOCAL_PORT, LOCAL_PORT_TAKEN = alike(
    "If clients use kproxy as their bootstrap server, you need not do anything. If you have published or opened node "
    "ports by number, choose another window with `--node-ports`.",
    "{node} has the local port {port} instead of {wanted}: {problem}",
    "it is taken by another process",
)
LOCAL_PORT_OF_CONNECTION = Message(
    "it is the local end of a connection to {peer}; keep --listen and --node-ports below the ports that the system assigns to connections (net.ipv4.ip_local_port_range)",
    "The same. `sysctl net.ipv4.ip_local_port_range` shows these ports. kproxy's default ports are below the range "
    "of Linux (32768 and up).",
)
LISTEN_PORT_OF_CONNECTION = Message(
    "--listen {listen}: the port is the local end of a connection to {peer}; choose another with --listen HOST:PORT",
    "The system uses this port for a connection. `sysctl net.ipv4.ip_local_port_range` shows the range of such ports.",
)
LOCAL_PORT_OUTSIDE = Message(
    "{node} has the local port {port} outside --node-ports {first}-{last}, where no port is free: widen the range",
    "There are more nodes than ports. Clients on this machine still work. If you publish ports or open them in a "
    "firewall, widen `--node-ports`.",
)
NOT_READY_FOR_COMMAND = Message(
    "not ready after {timeout:g} s, so the command is not run",
    "`kproxy exec` gave up. The reason follows, or is in the lines above. If the network is slow, use a longer "
    "`--timeout`.",
)
NO_KPROXY_ANSWERS = Message(
    "no kproxy answers at {address} (--admin): {error}",
    "`kproxy wait` got no answer. `kproxy run` has ended, has another `--admin`, or has `--no-admin`. If the message "
    "ends with `--admin-ca FILE says whom to trust`, give it the CA of kproxy's certificate.",
)
NO_EXIT_PROCESS = Message(
    "--exit-with: there is no process {text}; allowed: one that runs (in a pod, shareProcessNamespace shows those of other containers), a URL or a path",
    "The process has already ended, or is in another container. Use `shareProcessNamespace`, or a path or a URL "
    "instead.",
)
EXIT_FILE_EXISTS = Message(
    "the file exists",
    "At once: the file exists from an earlier run. This is correct after a restart of a pod's sidecar. Elsewhere, remove the "
    "file first.",
)
NO_KPROXY_INSTALLED = Message(
    "{host}: {python}, has no kproxy: {error}; {advice}",
    "`kproxy.spark.attach`: install kproxy in the Python that Spark's executors use: [What it "
    "needs](spark.md#what-it-needs).",
)
EXECUTOR_WITHOUT_KPROXY, THIS_EXECUTOR_WITHOUT_KPROXY = alike(
    "Spark's plugin could not start kproxy on the host of an executor. The message continues with the reason. Kafka "
    "tasks of this executor fail. `spark.kproxy.strict=true` ends the application at once instead, if the reason "
    "will not go away by itself: [Failures](spark.md#failures).",
    "no kproxy for executor {executor}: {error}",
    "no kproxy for this executor: {error}",
)
DRIVER_WITHOUT_KPROXY = Message(
    "no kproxy for this driver: {error}",
    "Spark's plugin could not start kproxy on the driver's host: [Failures](spark.md#failures).",
)
PYTHON_CANNOT_RUN, PYTHON_MISSING, PYTHON_TO_SET = alike(
    "Spark's plugin runs kproxy with this Python, and cannot. Install kproxy into it, or set the named key to the "
    "path of a Python 3.11 or later that has kproxy, on each host: [What it needs](spark.md#what-it-needs).",
    "{python} cannot run kproxy ({error})",
    "there is no Python {python} ({error})",
    ": install kproxy there, or set {key} to the path of a Python that has it",
)
KEEPER_ENDED = Message(
    "the keeper of kproxy (process {process}) has ended; kproxy is started again",
    "The process that runs kproxy beside Spark was killed. The Spark processes that use it restart it within a second.",
)
SPARK_SESSION_STOPPED = Message(
    "this Spark session has been stopped: create another one, and give attach that one",
    "`kproxy.spark.attach` needs a session that runs.",
)
LISTENER_OF_OTHER_APPLICATION = Message(
    "kproxy with another configuration listens on {listen} for another application: {who}; give this application another listen, or wait until the other application has ended",
    "`kproxy.spark.attach`: give each configuration its own `listen`, or none: then each configuration gets its own "
    "port.",
)
NO_EXECUTOR = Message(
    "Spark has no executor after {timeout:g} s, so kproxy runs on the driver's host only",
    "`kproxy.spark.attach`: look into Spark's own log for the reason, or raise `timeout`.",
    reason="timeout",
)
EXECUTOR_WITHOUT_TASK = Message(
    "executor {executor} ran no task within {timeout:g} s, so it has no kproxy",
    "`kproxy.spark.attach`: other jobs had all slots. Call it before them, or use the "
    "[plugin](spark.md#recipe-1-the-job-calls-attach), which needs no slot.",
    reason="timeout",
)
SECRET_UNPROTECTED = Message(
    "the configuration has a secret ({keys}), and spark.authenticate is not true, so any process that reaches the driver's port can read it; allowed: spark.authenticate=true, or the secret in a file on each host (sasl-password-file, client-config), or {permission}",
    "`kproxy.spark.attach`: see [Secrets](spark.md#secrets).",
)
KPROXY_NOT_READY = Message(
    "{host}: kproxy is not ready after {timeout:g} s: {why}",
    "`kproxy.spark.attach` and `kproxy.connect`: the message begins with the host or with `kproxy.connect`, and continues with the reason.",
    reason="timeout",
)
DID_YOU_MEAN = Message(
    "did you mean {word}?",
    "A mistake of configuration. kproxy reports all mistakes at once, with exit code 2: [Mistakes](configuration.md#mistakes).",
    fault=Fault.CONFIGURATION,
)
