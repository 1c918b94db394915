"""Faults of what stands between the client and the broker, or answers in the broker's place."""

from __future__ import annotations

from kproxy.advice.remedies.remedy import parse_remedies

NETWORK = parse_remedies("""
== network-refused: The service refuses the client's network
The service has received the connection, and its own rules do not allow the client's IP address or network: an IP
firewall, a list of allowed networks, or public access that is turned off. The password is not the reason.
Check: Compare the public address of the client's machine with the rules of the service.
Fix: Add the client's address or network to the rules, or connect over the private endpoint of the service.
librdkafka!> The request was rejected by firewall checks
java!> The request was rejected by firewall checks
any?> Ip has been prevented to connect to the endpoint
any?> Public network access is disabled
""")

PEERS = parse_remedies("""
== controller-port: The port is a controller's, not a broker's
A controller of KRaft has a listener of its own, often on port 9093. It answers brokers and other controllers, and has
no topics and no metadata for clients.
Check: `controller.listener.names` of the server names the listener, and `listeners` has its port.
Fix: Connect to a broker's listener: one of `advertised.listeners`, often port 9092. For tools that ask the
controllers on purpose: `--bootstrap-controller`.
java!> MismatchedEndpointTypeException
java!> MISMATCHED_ENDPOINT_TYPE
java!> The request was sent to an endpoint of the wrong type
java!> UnsupportedVersionException: The node does not support METADATA
java!> The node does not support METADATA
java!> does not support METADATA
Note: The reverse: the tool asks for a controller, and a broker answers. Use `--bootstrap-server` for brokers, and
`--bootstrap-controller` for a controller's listener.
java!> Expected response from CONTROLLER endpoint
java!> This Admin API is not yet supported when communicating directly with the controller quorum
java!> You cannot set both bootstrap.servers and bootstrap.controllers
Note:
java!> The remote node is not a BROKER that supports the METADATA api
java!> UnsupportedVersionException: The node does not support INIT_PRODUCER_ID
librdkafka!> Metadata request failed: …Required feature not supported by broker
librdkafka!> Failed to get metadata: Local: Required feature not supported by broker
librdkafka!> Failed to acquire metadata: Local: Required feature not supported by broker
kafka-python!> Kafka broker does not support the 'MetadataRequest' Kafka protocol
kafka-go!> no matching versions were found between the client and the broker for API key 3
rskafka!> Cannot find matching version for: Metadata
librdkafka!> No viable ProduceRequest ApiVersions …supported by broker: unable to produce
librdkafka!> Feature …MsgVer… not supported by broker

== proxy-too-old: Another Kafka proxy does not know a version of the protocol
A proxy between the client and the broker reads Kafka's messages itself, and does not know a version or a key that the
client and the broker use. The proxy is older than both.
Check: The message is in the proxy's log, not in the broker's.
Fix: Upgrade the proxy. Until then, use an older client, or one whose highest version is limited.
proxy!> Unsupported response schema version … for key …
""")

TLS = parse_remedies("""
== tls-inspection: A company's proxy may inspect TLS
A TLS inspection proxy stands between the client and the broker. It ends TLS connections itself, mostly on port 443,
and drops or cuts TLS on other ports. The client then gets no certificate, or one from the company's own CA.
Check: `openssl s_client -connect HOST:PORT` shows no certificate, or an issuer such as Zscaler, Netskope or the
company itself. Compare with the same command from another network.
Fix: Ask the owner of the proxy to let the broker's addresses and ports pass without inspection. If it shows a
certificate of the company's CA, the client must trust that CA. Or run kproxy with `--via` along a machine outside.
any*> no peer certificate available
any?> Zscaler
any?> issuer=…Netskope
""")

VERSIONS = parse_remedies("""
== option-removed: Kafka no longer has this option or setting
Options that were deprecated for years are gone: `--zookeeper` of the tools since Kafka 3.0, and `--broker-list`,
ZooKeeper and its settings since 4.0.
Check: `kafka-topics --version` shows the version of the tools.
Fix: Use `--bootstrap-server HOST:PORT` in place of `--zookeeper` and `--broker-list`.
Note: `--zookeeper` is gone since Kafka 3.0: use `--bootstrap-server HOST:PORT`, with a broker's address and not
ZooKeeper's.
tools!> zookeeper is not a recognized option
tools!> Missing required argument "[zookeeper]"
Note: `--broker-list` is gone since Kafka 4.0: use `--bootstrap-server HOST:PORT`.
tools!> broker-list is not a recognized option
Note: `--new-consumer` is gone, because there is no other consumer: leave it out, and use `--bootstrap-server`.
tools!> new-consumer is not a recognized option
Note: The option is newer than these tools. Older tools want `--zookeeper` or `--broker-list`; better use newer tools.
tools!> bootstrap-server is not a recognized option
Note: `kafka-topics --alter` no longer changes settings: use `kafka-configs --bootstrap-server HOST:PORT --alter`.
tools!> Option combination …config…bootstrap-server… can't be used with option …alter
tools!> Option combination …bootstrap-server…config… can't be used with option …alter
Note: The tool has no such option in this version: `--help` lists them.
tools!> joptsimple.UnrecognizedOptionException: …
Note: The tools call the file with the client's settings `--command-config`; before Kafka 4.2, the console producer and consumer call
it `--producer.config` and `--consumer.config`.
tools!> command-config is not a recognized option
tools!> producer.config is not a recognized option
tools!> consumer.config is not a recognized option
tools!> producer-config is not a recognized option
tools!> consumer-config is not a recognized option
Note: `--authorizer` and `--authorizer-properties` of `kafka-acls` are gone since Kafka 4.0: use `--bootstrap-server`.
tools!> authorizer is not a recognized option
tools!> authorizer-properties is not a recognized option
Note: ZooKeeper is gone since Kafka 4.0: a broker without `process.roles` does not start. Migrate to KRaft with Kafka
3.9 first. An old `server.properties` needs `process.roles`, `node.id` and the controllers.
broker!> Missing required configuration …process.roles… which has no default value
Note: The server was started without `process.roles`, so it wants ZooKeeper. For KRaft, set `process.roles`, `node.id`
and `controller.quorum.voters`, and give the start script the right file.
broker!> Missing required configuration …zookeeper.connect… which has no default value
Note: The Confluent image without `KAFKA_PROCESS_ROLES` wants ZooKeeper: set `KAFKA_PROCESS_ROLES`, `KAFKA_NODE_ID`,
`KAFKA_CONTROLLER_QUORUM_VOTERS` and `CLUSTER_ID` for KRaft.
broker!> environment variable "KAFKA_ZOOKEEPER_CONNECT" is not set
broker!> dub ensure KAFKA_ZOOKEEPER_CONNECT
broker!> missing mandatory config: KAFKA_ZOOKEEPER_CONNECT
Note: ZooKeeper's authorizer is gone since Kafka 4.0: set `authorizer.class.name` to
`org.apache.kafka.metadata.authorizer.StandardAuthorizer`.
broker!> ClassNotFoundException: kafka.security.authorizer.AclAuthorizer
broker!> kafka.security.authorizer.AclAuthorizer
broker!> kafka.security.auth.SimpleAclAuthorizer
Note: Kafka 4.0 has moved the tool: call the script in `bin/`, or use a class of `org.apache.kafka.tools`.
tools!> Could not find or load main class kafka.tools.
tools!> Could not find or load main class kafka.admin.
tools!> ClassNotFoundException: kafka.tools.
tools!> ClassNotFoundException: kafka.admin.
Note: The version in `inter.broker.protocol.version` or `metadata.version` is older than this broker supports: upgrade
over a version in between.
broker!> is not a valid version. The minimum version is
Note: `listeners` and `advertised.listeners` replace `host.name`, `port`, `advertised.host.name` and `advertised.port`,
which are gone since Kafka 3.0.
broker!> 'advertised.host.name' was supplied but isn't a known config
broker!> advertised.host.name is deprecated. Please use KAFKA_ADVERTISED_LISTENERS
""")
