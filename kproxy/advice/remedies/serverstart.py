"""More messages of servers at their start: the settings of listeners, KRaft's voters and data directories, and their tools.

Sources: QuorumConfig.java, DynamicVoter.java, Formatter.java, MetaPropertiesEnsemble.java, ClusterControlManager.java,
KafkaConfig.scala, StorageTool.scala, DynamicBrokerConfig.scala, KafkaRaftServer.scala and BrokerLifecycleManager.scala of
Apache Kafka 3.0 to 4.1; rpk's redpanda_yaml.go; kroxylicious-runtime; strimzi-kafka-oauth.
"""

from __future__ import annotations

from kproxy.advice.remedies.remedy import parse_messages

MESSAGES = parse_messages("""
== kraft-configuration
Note: A voter of `controller.quorum.voters` is ID@HOST:PORT, an address of `controller.quorum.bootstrap.servers` is
HOST:PORT, and each host must be one that the other controllers can reach.
broker!> Each entry should be in the form
broker!> is not routeable
broker!> for the configuration …. Each entry should be in the form
Note: A voter for `kafka-storage format --initial-controllers` is ID@HOST:PORT:DIRECTORY_ID. `kafka-storage random-uuid`
prints a directory id.
broker!> dynamic voter string
broker!> No hostname found after node id
broker!> No colon following hostname could be found
broker!> No colon following port could be found
broker!> Port section must start with a colon
broker!> Hostname began with left bracket, but no right bracket was found
broker!> No voters given
broker!> was specified more than once
Note: The way of the first controllers must be given once when a directory is formatted: `--standalone` for a single
controller, `--initial-controllers` for several, `--no-initial-controllers` for one that joins later. With
`controller.quorum.voters` none of them may be given.
broker!> --standalone, --initial-controllers, or --no-initial-controllers
broker!> You can only use --standalone on a controller
broker!> Cannot set kraft.version to
Note: The version of the metadata or of a feature is none that this Kafka knows: see `kafka-features describe`.
broker!> Unknown release version '
broker!> Unknown metadata.version
broker!> Use --release-version instead of --feature
broker!> Invalid version format: … for feature
broker!> Unsupported feature: …. Supported features are
broker!> SCRAM is only supported in
broker!> is deprecated in KRaft mode as of 3.3
broker!> JBOD) are not supported in the current MetadataVersion
broker!> current MetadataVersion is too old to support controller registrations
Note: A user of SCRAM for `kafka-storage format --add-scram` is written as `SCRAM-SHA-512=[name=NAME,password=PASSWORD]`.
broker!> to add-scram
broker!> Failed to find equals sign in SCRAM argument
broker!> Unknown SCRAM configurations
broker!> for add-scram using
Note: The node's id is missing or no number of 0 or more: set `node.id`.
broker!> broker.id must be greater than or equal to
broker!> node ID not found in
broker!> Failed to generate broker.id
broker!> No broker ID found
Note: The tool needs the file of the controller that joins the quorum, with its `node.id`, role and listener.
tools!> Is this a valid controller configuration file
tools!> Cannot find information about controller listener name
Note: This controller runs in KRaft mode, and the broker is configured for ZooKeeper. Configure the broker for KRaft
(`process.roles`, `node.id`, the controllers).
broker!> Controller does not support registering ZK brokers
Note: The broker has registered itself again, and an older registration of it is still used. It passes by itself if
only one process has this `node.id`.
broker!> Expected broker epoch … but got broker epoch
broker!> No broker registration found for broker id
broker!> is already registered with directory
Note: The server takes part in a migration from ZooKeeper, and its settings contradict that. Compare
`zookeeper.metadata.migration.enable`, `zookeeper.connect` and the controllers in the files of all nodes.
broker!> ZooKeeper migration
broker!> must be empty when not running in KRaft mode

== broker-storage
Note: A directory in `log.dirs` is none of Kafka's, such as `lost+found` of a new volume: let `log.dirs` be a directory below the
volume's own.
broker!> is not in the form of topic-partition
Note: The directory has the data of another cluster than the controllers have. Correct the volume or the addresses of
the controllers. For a new cluster, format an empty directory with the controllers' cluster id.
broker!> Expected cluster ID … but got cluster ID
Note: The file meta.properties of the data directory cannot be used: it is damaged, of another version of Kafka, or the
directory is not that of this node.
broker!> Invalid meta.properties version string
broker!> Unknown meta.properties version number
broker!> Error while reading meta.properties file
broker!> Error while writing meta.properties
broker!> node.id was not specified in
broker!> cluster.id was not found
broker!> node.id was not found
broker!> cluster ID not found in
broker!> Found unexpected version in
broker!> Unable to read meta.properties from
Note: The directory of the cluster's metadata is missing or elsewhere: see `metadata.log.dir` and `log.dirs`.
broker!> Found unexpected metadata location in data directory
broker!> No metadata log directory was specified
broker!> metadata log directory
broker!> Encountered I/O error in metadata log directory
broker!> At least one log directory must be defined
broker!> Error while reading the Quorum status from the file
broker!> Error while writing the Quorum status from the file

== listener-configuration
Note: A listener can be changed while the broker runs only within narrow limits: change the file and restart it.
broker!> Advertised listeners cannot be altered
broker!> Security protocol cannot be updated for existing listener
broker!> Configs cannot be updated dynamically for existing listener
broker!> Advertised listener must be specified for inter-broker listener
broker!> must be subset of listener map
broker!> must be a subset of listeners
Note: Each name in `advertised.listeners` and in `inter.broker.listener.name` must be a name in `listeners`. Correct
the name, or add the listener.
broker!> listener names must be equal to or a subset of the ones defined in
broker!> must be a listener name defined in
broker!> should have a different value from the inter broker listener name
broker!> Only one of inter.broker.listener.name and
broker!> If using security.inter.broker.protocol
broker!> Should be set as a listener name within valid broker listener name list
broker!> is not contained in the valid broker listener
broker!> , but this is not contained in
broker!> Unable to parse a listener name from
Note: Two listeners have the same port. Kafka demands a port of its own for each, also where their hosts differ.
broker!> Each listener must have a different port
Note: Two listeners have the same name. Give each a name of its own, and map both in `listener.security.protocol.map`.
broker!> Each listener must have a different name
Note: The names in `controller.listener.names` are those of controller listeners: a controller has them in `listeners`, a
server that is only a broker has not.
broker!> must contain at least one value appearing in the
broker!> must only contain values appearing in the
broker!> must not contain a value appearing in the
broker!> must contain at least one value when running KRaft with just the broker role
broker!> has multiple entries; only the first will be used
Note: The brokers log in to each other by `sasl.mechanism.inter.broker.protocol`, which must be in
`sasl.enabled.mechanisms`. Add it there.
broker!> when SASL is used for inter-broker communication
Note: The key store and trust store of a listener cannot be added or removed while the broker runs. Restart the broker
with them.
broker!> Cannot add SSL keystore to an existing listener
broker!> Cannot add SSL truststore to an existing listener
broker!> Cannot remove the SSL keystore from an existing listener
Note: A broker tries its own key store against its own trust store at the start: its certificate must be signed by a CA
in the trust store, and be good for a server and a client.
broker!> A client SSLEngine created with the provided settings can't connect to a server SSLEngine
Note: Redpanda's file has an address or port that no client can use: set the address that clients reach.
franz-go!> unexpected kafka advertised address '0.0.0.0'
franz-go!> unexpected rpc advertised address '0.0.0.0'
broker> Redpanda … advertised address
Note: Redpanda cannot listen at the address: another program has the port, two of its APIs have the same one, or no
interface of this machine or container has the address. To listen everywhere, use 0.0.0.0 and advertise another address.
broker!> Error attempting to listen on {…posix_listen failed for address
broker> posix_listen failed for address
Note: Each node behind the proxy needs a port or name of its own: enlarge the range of node ids, or give each one.
proxy!> as it is not contained in the ranges defined for provider
proxy!> cannot be bound with key
proxy!> Node Identification Strategy requires
proxy!> shared port bindings must use server name indication
proxy!> Virtual cluster not found
proxy!> list of bootstrap-server-mapping must not be empty

== broker-storage
Note: The data directory is of a node that was removed from the cluster: Redpanda lets it join with an empty directory
only, under a new id.
broker!> trying to rejoin with same ID and UUID as a decommissioned node

== configuration
Note: Redpanda forms its cluster from the nodes in `seed_servers` of redpanda.yaml: list the same nodes in each node's
file, or set `empty_seed_starts_cluster: true` for a node that begins a cluster alone.
broker!> seed_servers cannot be empty when empty_seed_starts_cluster is false
broker!> cluster_discovery.cc
Note: The setting is stored encrypted: `password.encoder.secret` is missing or is another one than before.
broker!> Password encoder secret not configured
broker!> could not be decoded, ignoring
tools!> Password encoder secret not specified
Note: The settings of the authorizer contradict those of the broker.
broker!> This authorizer requires … as 'principal.builder.class'
broker!> must implement KafkaPrincipalSerde
broker> Authorizer has not been configured

== no-controller
Note: A node of Redpanda does not reach the other nodes at the addresses in `seed_servers` (port 33145, `rpc_server`), or
they do not let it join.
broker!> Error joining cluster using … seed server
Note:
broker!> failed due to authentication error with controller
broker!> to the controller…failed due to unsupported version error
broker!> Unable to forward … to the controller
broker!> The current node is not the active controller
broker!> is not the active controller
Note: ZooKeeper cannot be reached, or refuses the login: see `zookeeper.connect`, and start ZooKeeper first.
broker!> Auth failed either before or while waiting for connection
broker!> Session expired either before or while waiting for connection
broker!> Failed to connect within … ms
Note: A broker has lost its session with ZooKeeper: it was paused or overloaded, or ZooKeeper is down. Look into both logs,
and try again.
broker!> KeeperErrorCode = Session expired
""")
