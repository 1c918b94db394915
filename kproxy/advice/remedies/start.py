"""Faults at the start of a broker or controller, other than those of its listeners.

Sources of the messages: core/src/main/scala/kafka/server/{KafkaConfig,KafkaServer,KafkaRaftServer,BrokerServer}.scala,
metadata/.../properties/MetaPropertiesEnsemble.java, raft/.../QuorumConfig.java of Apache Kafka 2.8 to 4.1.
"""

from __future__ import annotations

from kproxy.advice.remedies.remedy import parse_messages, parse_remedies

TABLE = parse_remedies("""
== broker-storage: The broker's data directory does not fit this node or cluster
A directory of `log.dirs` has a file `meta.properties` with the cluster id and the node id for which it was formatted.
The broker starts only if both are its own, and if the directory is formatted at all.
Check: `cat LOG_DIR/meta.properties` on the broker, beside `node.id` and the cluster id with which you format.
Fix: For a new cluster, format the directory: `kafka-storage format --cluster-id ID --config FILE`. With old data of
another cluster in the directory or volume, correct `log.dirs` or the volume. Delete the volume only if you need none
of its data.
Note: The directory is not formatted: run `kafka-storage format --cluster-id ID --config FILE` once for each node,
with one id for the whole cluster. Check that `log.dirs` is the directory, and that its volume is mounted.
broker!> No readable meta.properties files found
broker!> is not formatted
broker!> Because controller.quorum.voters is not set on this controller
broker!> argument --cluster-id/-t is required
broker!> CLUSTER_ID is required
broker!> No …meta.properties… found in
Note: The directory belongs to a node with another id: `node.id` has changed, or the volume of another node is mounted.
Correct `node.id` or the volume.
broker!> Configured node.id … doesn't match stored node.id … in meta.properties
broker!> Configured broker.id … doesn't match stored broker.id … in meta.properties
broker!> InconsistentNodeIdException
broker!> InconsistentBrokerIdException
broker!> Stored node id … doesn't match previous node id
Note: The directory has the data of another cluster than the one that the broker joins: an old volume with a new
ZooKeeper, or the wrong volume. `meta.properties` has the id of the data.
broker!> InconsistentClusterIdException: The Cluster ID … doesn't match stored clusterId
Note: The directories hold data of different clusters or nodes. Let `log.dirs` name only directories of this node.
broker!> InconsistentBrokerMetadataException
broker!> BrokerMetadata is not consistent across log.dirs
Note: The directory was formatted for another cluster id than the one that is given now. Give the id that is in its
`meta.properties`, or use an empty directory for a new cluster.
broker!> Invalid cluster.id in
broker!> cluster.id was not specified in
broker!> You must specify the cluster id
Note: The directory is already formatted. That is fine for a restart; a start script needs `--ignore-formatted`.
broker!> is already formatted. Use --ignore-formatted
Note: A cluster id is a UUID in base64, 22 characters, as `kafka-storage random-uuid` prints it.
broker!> Cluster ID string … does not appear to be a valid UUID
broker!> does not appear to be a valid UUID
Note: The data of ZooKeeper was deleted, or the broker uses the wrong ZooKeeper, so the cluster has got a new id.
Restore the data of ZooKeeper, or correct `zookeeper.connect`. Begin with empty directories in `log.dirs` only if the
data of the broker may go.
broker!> The broker is trying to join the wrong cluster. Configured zookeeper.connect may be wrong
Note: The user of the broker's process may not write to the directory: in a container, that is the owner of the mounted
volume.
broker!> Check if … is writable
broker!> dub path … writable] FAILED
Note: The user of the broker's process may not write to the directory: in a container, that is the owner of the mounted
volume.
broker!> .lock (Permission denied)
broker!> java.io.IOException: Permission denied … at kafka.
broker> java.nio.file.AccessDeniedException: …meta.properties
any!> /bin/../logs': Permission denied
Note: A directory in `log.dirs` cannot be created, read or used: its parent does not exist or belongs to another user, the volume
is not mounted, or its disk is broken. The lines before it say which.
broker!> Failed to load … during broker startup
broker!> none of the specified log dirs from
Note: The user of the broker's process may not write to the directory: in a container, that is the owner of the mounted
volume.
broker!> meta.properties (Permission denied)
broker!> Failed to create or validate data directory
broker!> dub path … writable
broker!> dub path
broker!> meta.properties.tmp
Note: Another process uses the directory: a second broker with the same `log.dirs`, or one that has not ended yet.
broker!> Failed to acquire lock on file .lock in
Note: All directories of the broker have failed: a full or broken disk, or missing rights.
broker!> Shutdown broker because all log dirs in
broker!> Stopping serving logs in dir

== kraft-configuration: Node ids, roles or voters of KRaft contradict each other
Each server has one `node.id`, unique in the cluster, and `process.roles`. `controller.quorum.voters` lists the ids and
addresses of controllers only.
Check: Compare `node.id`, `process.roles`, `controller.quorum.voters` and `controller.listener.names` of all servers.
Fix: Give each server another `node.id`. List exactly the controllers as voters, each with its own id and the address
of its controller listener.
Note: This server is a broker only, and its node id is one of a controller in `controller.quorum.voters`. Give it
another `node.id`, or make it a controller too (`process.roles=broker,controller`).
broker!> If process.roles contains just the 'broker' role, the node id … must not be included in the set of voters
Note: This server is a controller, and its node id is missing in `controller.quorum.voters`. Add it there.
broker!> If process.roles contains the 'controller' role, the node id … must be included in the set of voters
broker!> must be included in the set of voters controller.quorum.voters
Note: `controller.listener.names` is missing: set it to the name of the controllers' listener, such as `CONTROLLER`, which
stands in `listener.security.protocol.map` too, and in `listeners` of the controllers.
broker!> enabled but KAFKA_CFG_CONTROLLER_LISTENER_NAMES was not provided
broker!> KAFKA_CFG_CONTROLLER_LISTENER_NAMES was not provided
Note: KRaft needs to know its controllers: set `controller.quorum.voters` (ID@HOST:PORT) or
`controller.quorum.bootstrap.servers`.
broker!> If using process.roles, either controller.quorum.bootstrap.servers
broker!> must contain a parseable set of voters
broker!> KRaft mode requires
Note: The server has no role: set `process.roles` (`KAFKA_CFG_PROCESS_ROLES`) to `broker`, `controller` or both, and
`controller.quorum.voters`.
broker!> Kafka requires at least one process role to be set
broker!> KAFKA_CFG_PROCESS_ROLES: unbound variable
broker!> Kafka haven't been configured to work in either Raft or Zookeper mode
broker!> Invalid KRaft process role
Note: KRaft needs to know its controllers: set `controller.quorum.voters` (ID@HOST:PORT) or
`controller.quorum.bootstrap.servers`.
broker!> Role 'controller' enabled but environment variable
broker!> If using …controller.quorum.bootstrap.servers
broker!> You cannot specify controller.quorum.voters and format the node with
broker!> Only one of --standalone
broker!> is mandatory when running in KRaft mode
broker!> was not provided but is mandatory
broker!> KAFKA_PROCESS_ROLES is not set
broker!> "KAFKA_PROCESS_ROLES" is not set
broker!> "KAFKA_NODE_ID" is not set
broker!> "KAFKA_ADVERTISED_LISTENERS" is not set
broker!> "CLUSTER_ID" is not set
broker!> Missing required configuration …node.id… which has no default value
broker!> Missing configuration …node.id… which is required when …process.roles… is defined
broker!> Missing configuration …node.id…
broker!> Unknown process role '…' (only 'broker' and 'controller' are allowed roles)
broker!> Duplicate role names found in
broker!> You must set …node.id… to the same value as …broker.id
broker!> No @ found in dynamic voter string
broker!> in dynamic voter string
broker!> You must specify a valid non-negative node ID
broker!> No controller listeners found
broker!> You must specify the name of the initial controller listener
broker!> Failed to parse voter ID as an integer from
broker!> Error parsing host and port in voter string
broker!> Expected voter ID in form
broker!> is not supported in KRaft mode
Note: Two brokers have the same `node.id`, or the former process of this broker has not ended yet: its session lasts
some seconds.
broker!> because the controller returned error DUPLICATE_BROKER_REGISTRATION
broker!> Another broker is registered with that broker id
broker!> DUPLICATE_BROKER_REGISTRATION
broker!> DuplicateBrokerRegistrationException
broker!> Error while creating ephemeral at …, node already exists and owner
broker!> A broker is already registered on the path /brokers/ids/
Note: The node ids in `controller.quorum.voters` and in the controllers' `node.id` differ. Make them equal.
broker!> INVALID_VOTER_KEY
broker!> InvalidVoterKeyException
broker!> InconsistentVoterSetException
broker!> VoterNotFoundException
Note: The file has no `process.roles`: it is a configuration for ZooKeeper, and `kafka-storage` formats directories of
KRaft only.
broker!> The kafka configuration file appears to be for a legacy cluster
Note: The session of the broker's former process in ZooKeeper has not ended yet, or two brokers have one `broker.id`.
Wait for `zookeeper.session.timeout.ms`, and give each broker its own id.
broker> KeeperErrorCode = NodeExists
Note: The broker is fenced: it has registered itself, and its heartbeats do not reach the controller, or it is still
catching up. Look for the last error before it in the broker's log.
broker!> STALE_BROKER_EPOCH
broker!> StaleBrokerEpochException
broker!> BrokerIdNotRegisteredException
broker!> BROKER_ID_NOT_REGISTERED
broker!> Fencing broker … because its session has timed out
Note: The version of the metadata is too old or too new for this broker: see `kafka-features describe`, and upgrade
one version at a time. Kafka 4.0 needs at least metadata version 3.3.
broker!> INVALID_REGISTRATION
broker!> A non-KRaft version … given for
broker!> No valid metadata.version
broker!> No MetadataVersion with metadata version
broker!> No MetadataVersion with feature level
broker!> is not a valid MetadataVersion
broker!> Unable to register because the broker does not support …version
""")

MESSAGES = parse_messages("""
== same-address-twice
Note: Another broker advertises the same address. Behind one name, each broker needs a port of its own; with replicas
of one pod template, each needs its own name.
broker!> Configured end points … in advertised listeners are already registered by broker
broker!> are already registered by broker

== no-coordinator
Note: There are fewer brokers than `offsets.topic.replication.factor` (3 by default). On a single broker, set
`offsets.topic.replication.factor`, `transaction.state.log.replication.factor` and `transaction.state.log.min.isr` to
1.
broker!> Number of alive brokers … does not meet the required replication factor … for the offsets topic
broker!> does not meet the required replication factor
Note: There are fewer brokers than `transaction.state.log.replication.factor` (3 by default). On a single broker, set it,
`transaction.state.log.min.isr` and `offsets.topic.replication.factor` to 1.
broker!> Number of alive brokers … does not meet the required replication factor … for the transactions state topic
broker!> does not meet the required replication factor … for the transactions state topic
Note:
java!> Timeout of …ms expired before successfully committing offsets
java!> while awaiting InitProducerId
librdkafka!> Failed to acquire idempotence PID from broker …Coordinator
librdkafka!> Failed to acquire transactional PID from broker
java!> Group coordinator lookup failed
java!> Consumer has been disconnected from the group coordinator for
sarama!> topic is not initialized completely yet
sarama!> client/coordinator no available broker to send consumer metadata request to

== broker-missing
Note: The topic wants more replicas than there are brokers. Create it with a smaller replication factor, or start the
missing brokers.
broker!> Unable to replicate the partition … time(s): …
broker!> The target replication factor of … cannot be reached because only … broker(s) are registered
java!> Replication factor: … larger than available brokers
any?> larger than available brokers

== listener-configuration
Note: The port is in use on this machine, perhaps by a former broker that has not ended. `ss -ltnp` shows which
process has it.
broker!> Socket server failed to bind to …: Address already in use
Note: The address in `listeners` is of no interface of this machine or container. Listen on 0.0.0.0 or on no host at
all, and put the address for clients into `advertised.listeners`.
broker!> Socket server failed to bind to …: Cannot assign requested address
broker!> Socket server failed to bind to …: Unresolved address
broker!> Socket server failed to bind to …: Name or service not known
Note: An address in `listeners` or `advertised.listeners` cannot be read. The form is NAME://HOST:PORT, where the name
is in `listener.security.protocol.map`.
broker!> Unable to parse … to a broker endpoint
broker!> Unable to parse … to a broker endpoint
broker!> Error creating broker listeners from
broker!> advertised.listeners … cannot be empty
Note: The image has neither listeners nor advertised listeners in its variables. Set KAFKA_LISTENERS and
KAFKA_ADVERTISED_LISTENERS, such as `PLAINTEXT://:9092` and `PLAINTEXT://HOST:9092` with the name that clients use.
broker!> No listener or advertised hostname configuration provided in environment
Note: Two listeners in Strimzi's resource `Kafka` have the same port. Give each its own, 9092 or higher.
broker!> every listener needs to have a unique port number
Note: `advertised.listeners` of a broker must not have the controller's listener, and a controller advertises none.
Remove it there.
broker!> config must be empty when process.roles=controller
broker!> The advertised.listeners config must not contain KRaft controller listeners
broker!> requirement failed: The advertised.listeners config must not contain KRaft controller listeners
Note: The broker has no listener for clients: all names in `listeners` are in `controller.listener.names`. Add one, such as
`PLAINTEXT://:9092`, and advertise it.
broker!> There must be at least one advertised listener
broker!> requirement failed: There must be at least one advertised listener
Note: Kubernetes has put the address of a Service into the variable of a port: each pod beside a Service named `kafka` gets
`KAFKA_PORT=tcp://…`. Name the Service otherwise, or set `enableServiceLinks: false` in the pod.
broker!> ://:tcp://
broker!> Error creating broker listeners from '…:tcp://…': No security protocol defined for listener
Note:
Note: The start script of the image stops, because no listener is encrypted: set `ALLOW_PLAINTEXT_LISTENER=yes` for a
trial, or a listener with TLS or SASL.
broker!> does not configure a secure listener
broker!> Role 'controller' enabled but listener … not found in KAFKA_CFG_LISTENERS
broker!> not found in KAFKA_CFG_LISTENERS
broker!> There are listeners bound to the same port
broker!> The allowed values for KAFKA_
broker!> ALLOW_PLAINTEXT_LISTENER=yes to allow the container to be started with a plaintext listener
Note:
broker!> controller.listener.names must contain at least one value
broker!> controller.listener.names must not contain a value appearing in the 'listeners' configuration
broker!> config must only contain KRaft controller listeners from
broker!> Controller listener with name … defined in controller.listener.names not found in
broker!> Listener with name … defined in … not found in
broker!> Listener with … defined in … not found in
broker!> Invalid security protocol …defined in
broker!> Error parsing configuration property 'listener
broker!> Could not find listenerName
broker!> advertised.listeners contains listener
broker!> controller.listener.names must not contain an explicitly set inter.broker.listener.name configuration value
broker!> The listeners config must only contain KRaft controller listeners from controller.listener.names
broker!> No enum constant org.apache.kafka.common.security.auth.SecurityProtocol
broker!> inter.broker.listener.name must be a listener name defined in
Note: `listener.security.protocol.map` lacks the name of the listener: add NAME:PROTOCOL, such as `CONTROLLER:PLAINTEXT`. As
soon as one name is in the map, it has no default for any other.
broker!> No security protocol defined for listener
broker!> No security protocol defined for listener …

== no-controller
Note: A node cannot resolve or reach a controller: each name and port in `controller.quorum.voters` (or
`controller.quorum.bootstrap.servers`) must be right from this node, from its own container or pod too, and the controller
must run. While nodes start one after the other, such lines are normal.
broker!> [RaftManager …Error connecting to node
broker!> [RaftManager …Connection to node … could not be established
broker!> ToControllerChannelManager …Connection to node … could not be established
broker!> ToControllerChannelManager …Error connecting to node
broker!> [kafka-raft-outbound-request-thread] Error connecting to node
Note: The controllers elect no leader. If such lines go on, fewer than a majority of `controller.quorum.voters` run and reach
each other, or their logs differ: see the log of each. Some of them at the start are normal.
broker!> [RaftManager …Vote request …is rejected
broker!> In the new epoch …, the leader is (none)
Note: The broker waits for the ACLs from the controllers, and gets none: a majority of the controllers must run and reach
each other, and the principal of the nodes must be in `super.users`.
broker!> Failed to complete initial ACL load process
broker!> AuthorizerNotReadyException
broker!> waiting for all of the authorizer futures to be completed
Note: The controllers elect no leader: a majority of `controller.quorum.voters` must run, and each must reach the others at
these addresses. While nodes start one after the other, such lines are normal.
broker!> Election timed out before receiving sufficient vote responses
broker!> Election has timed out, backing off for
Note: This broker does not reach the controllers: see `controller.quorum.voters` and the controllers' listener.
broker!> Unable to register broker … because of an
broker!> Unable to send broker heartbeat for
broker!> Shutting down because we were unable to register with the controller quorum
broker!> Timed out waiting for the controller to approve controlled shutdown
broker!> Unable to register broker … because the controller returned an invalid response type
broker!> Cancelled in-flight BROKER_REGISTRATION request
broker!> Election has timed out, backing off for
broker!> Disconnected from node … due to timeout
broker!> Unable to send control request to node
broker!> Unable to send a heartbeat because the RPC got timed out before it could be sent
broker!> Received a fatal error while waiting for the controller to acknowledge
Note: ZooKeeper cannot be reached: see `zookeeper.connect`, and start ZooKeeper first.
broker!> kafka.zookeeper.ZooKeeperClientTimeoutException
broker!> Timed out waiting for connection while in state: CONNECTING
broker!> Unable to resolve address: zookeeper
broker!> Timed out waiting for connection while in state
broker> KeeperErrorCode = ConnectionLoss
broker!> Unable to connect to zookeeper server within timeout
broker!> Unable to connect to zookeeper server '
broker!> cub zk-ready
broker!> Failed to connect to Zookeeper
broker!> ZookeeperScalingException
""")
