"""Messages with which a client, or a program that contains one, refuses its own settings before it connects.

Sources: rdkafka_conf.c, rdkafka_ssl.c and rdkafka_sasl*.c of librdkafka; config.go of Sarama; reader.go and writer.go of
kafka-go; ssl_context.rb and cluster.rb of ruby-kafka; kafka/sasl and kafka/net/sasl of kafka-python; client.py of aiokafka;
lib/kafkajs of confluent-kafka-javascript; ConfigurationUtils.java, ConfigDef.java and ClientUtils.java of Apache Kafka;
strimzi-kafka-oauth; SchemaRegistryConfig.java; config of Redpanda Console and of rpk; kafka-php.
"""

from __future__ import annotations

from kproxy.advice.remedies.remedy import parse_messages

MESSAGES = parse_messages("""
== name-not-resolved credentials-unreadable jaas configuration
Note: Java's client ends before it connects: it resolves its bootstrap servers, reads key stores and the files of a login,
and checks its settings. The reason stands in a `Caused by:` below it, or in the program's own log at level DEBUG.
java> KafkaException: Failed to construct kafka …
java!> Failed to construct kafka consumer
java!> Failed to construct kafka producer
java!> Failed to create new KafkaAdminClient
java!> Unable to create Kafka consumer from given configuration
java!> Unable to create Kafka producer from given configuration

== configuration
Note: The program knows no bootstrap server: set `bootstrap.servers`, under the name and in the section that the
program reads.
librdkafka!> No brokers configured
java!> The property 'kafka.bootstrap.servers' must be set when
java!> URL to the Kafka brokers must be configured with the brokers option
librdkafka!> No `bootstrap.servers` configured
kafka-go!> cannot create a new kafka reader with an empty list of broker addresses
kafka-go!> cannot create a kafka writer with an empty list of brokers
kafka-go!> cannot create a kafka writer with a nil address
kafka-go!> cannot create a consumer group with an empty list of broker addresses
kafka-go!> no address was given for the kafka cluster in the request or on the client
kafka-go> no brokers in config
franz-go!> config erroneously has no seed brokers
franz-go> you must specify at least one broker to connect to
franz-go!> No brokers found. Check broker address configuration
franz-go!> no brokers specified and rpk.yaml is configured to not use a default cluster
ruby-kafka!> At least one seed broker must be configured
ruby-kafka!> No brokers specified. Need one broker at least
sarama!> kafka: no brokers
any!> Must specify bootstrap servers using
any> No valid broker configured
java!> No bootstrap urls given in bootstrap.servers
kafkajs!> Failed to connect: expected brokers array and got nothing
kafkajs!> Failed to connect: brokers array is empty
any!> Couldn't find any clusters on your configuration file
Note: Sarama refuses its own configuration: the words in brackets name the field of `sarama.Config`.
sarama!> kafka: invalid configuration (…
sarama!> ApiVersionsRequest must be disabled when SASL v0 is enabled
sarama> Net.SASL is disabled but a non-empty username was provided
sarama> Net.TLS is disabled but a non-nil configuration was provided
Note: A client certificate and its private key belong together: give both, or none.
ruby-kafka!> Kafka client initialized with
librdkafka> ssl.certificate.location and ssl.key.location must both be set
java!> SSL private key is specified, but certificate chain is not specified
java!> SSL certificate chain is specified, but private key is not specified
Note: Set the key store and the trust store in one way only: as a file with its password, or as PEM text.
java!> Both SSL key store location and separate private key are specified
java!> Both SSL trust store location and separate trust certificates are specified
java!> SSL key store is not specified, but key store password is specified
java!> SSL trust store is not specified, but trust store password is specified
java!> SSL private key can be specified only for PEM
Note: User and password belong together: set both, for the mechanism in use.
librdkafka> Username and password are required
kafkajs> SASL AWS-IAM: Missing
kafkajs> username must be set for setSaslCredentials
any> You specified username but did not specify password
any> You specified password but did not specify username
any> SASL.Username and SASL.Password are required when SASL is enabled
java> Username configured ('…') but no password specified
Note: The login with tokens is not configured completely: the method, the token server's URL, the client id and the secret
belong together.
librdkafka!> is mandatory when …sasl.oauthbearer.method
librdkafka!> No SASL mechanism using callbacks is configured
librdkafka!> SASL/OAUTHBEARER is not the configured authentication mechanism
librdkafka> SaslOauthbearerConfig is missing or empty
java!> The OAuth configuration option
java!> OAuth validator configuration error
java!> Invalid oauth client configuration - no credentials
java> Specified token endpoint uri is invalid
java> OAuth2 Token Endpoint ('…') not set
java> Access token not specified ('…
java!> No access token or location (
kafka-python!> sasl_oauth_token_provider required for OAUTHBEARER sasl
kafka-python!> sasl_oauth_token_provider must implement
aiokafka!> sasl_oauth_token_provider needs to be provided
sarama!> An AccessTokenProvider instance must be provided
franz-go> OAuth Bearer client credentials must be set
franz-go> OAuth Bearer token or token file path must be set
any!> Schema Registry authentication misconfiguration
Note: The login is not configured completely: Kerberos needs a service name (`kafka`), a principal and a keytab.
kafka-python!> sasl_kerberos_service_name or sasl_kerberos_name required
any!> sasl_kerberos_service_name must be specified when SASL mechanism is GSSAPI
any> GSSAPI KerberosConfigPath must not be empty
franz-go> failed to validate gssapi config
librdkafka!> Invalid sasl.kerberos.kinit.cmd value
Note: The value of a security setting is none of those that the client knows: the protocol is PLAINTEXT, SSL,
SASL_PLAINTEXT or SASL_SSL, and the mechanism is written as in Kafka (`SCRAM-SHA-512`).
aiokafka!> …security_protocol… should be SSL or PLAINTEXT
aiokafka!> …ssl_context… is mandatory if security_protocol=='SSL'
aiokafka!> sasl_mechanism… are supported at the moment
kafka-python!> security_protocol must be in
kafka-python!> sasl_mechanism must be one of
kafka-python!> AWS_MSK_IAM requires
kafka-python!> Unrecognized SCRAM mechanism
librdkafka!> Unknown sasl.mechanism value
librdkafka!> Unsupported hash function: … (try SCRAM-SHA-512)
kafka-node!> unsupported SASL auth type
franz-go!> given sasl mechanism '…' is invalid
franz-go!> unknown SASL mechanism …, supported
franz-go> failed to validate sasl config
rskafka> Invalid SASL config
any> is an invalid SASL mechanism
any> Invalid security protocol given
any> Invalid security sasl mechanism given
kafkajs!> Cannot read property 'toUpperCase' of undefined
kafkajs!> Cannot read properties of undefined (reading 'toUpperCase')
java!> configuration enables SASL, mechanism must be non-null and non-empty string
schema-registry!> SASL_SSL Kafka endpoints are supported
Note: Each address in the list must be HOST:PORT, and its protocol that of `kafkastore.security.protocol`.
schema-registry!> Ignoring Kafka broker endpoint … that does not match the setting for
Note: The property is one of Java's clients. librdkafka has `sasl.username` and `sasl.password` for a login, and
`ssl.ca.location`, `ssl.certificate.location` and `ssl.key.location`, or `ssl.keystore.location` with PKCS#12, for TLS.
librdkafka!> No such configuration property: "sasl.jaas.config"
librdkafka!> No such configuration property: "sasl.client.callback.handler.class"
librdkafka!> No such configuration property: "sasl.login.callback.handler.class"
librdkafka!> No such configuration property: "ssl.truststore.location"
librdkafka!> No such configuration property: "ssl.truststore.password"
librdkafka!> No such configuration property: "ssl.truststore.type"
librdkafka!> No such configuration property: "ssl.keystore.type"
librdkafka!> No such configuration property: "ssl.truststore.certificates"
librdkafka!> No such configuration property: "ssl.keystore.key"
librdkafka!> No such configuration property: "ssl.keystore.certificate.chain"
librdkafka!> No such configuration property: "key.serializer"
librdkafka!> No such configuration property: "value.serializer"
librdkafka!> No such configuration property: "key.deserializer"
librdkafka!> No such configuration property: "value.deserializer"
librdkafka!> No such configuration property: "buffer.memory"
librdkafka!> No such configuration property: "max.poll.records"
librdkafka!> No such configuration property: "default.api.timeout.ms"
Note: Fluent Bit passes `rdkafka.NAME` to librdkafka, which has no setting of this NAME or refuses the value: correct it.
librdkafka!> [out_kafka] cannot configure '…' property
Note: This version of Logstash's plugin demands both files for a login with SASL: set `jaas_path` and `kerberos_config`, or
install a newer plugin.
any!> RUBY.set_sasl_config
Note: An OpenSSL setting of the client cannot be used: the words after it are OpenSSL's.
librdkafka!> ssl.cipher.suites failed
librdkafka!> ssl.curves.list failed
librdkafka!> ssl.sigalgs.list failed
librdkafka!> Failed to load OpenSSL provider
librdkafka!> ssl.providers expects
librdkafka!> OpenSSL engine
Note: A setting of time is too small beside another one; the message names both.
kafka-python!> must be larger than request_timeout_ms
kafka-python!> default_api_timeout_ms (…) must be >= request_timeout_ms
kafka-python!> Must set delivery_timeout_ms higher than linger_ms + request_timeout_ms
kafka-python!> Heartbeat interval must be lower than the session timeout
java!> Heartbeat must be set lower than the session timeout
kafkajs!> Consumer heartbeatInterval (…) must be lower than sessionTimeout
Note: A file that the settings name cannot be read.
any> Set ssl local cert file is invalid
any> Set ssl ca file is invalid
java!> Could not read properties from file
java> The path … is not allowed to be accessed
Note: The tool needs addresses in the form HOST:PORT, separated by commas.
tools!> Error while validating the bootstrap address
tools!> Please provide valid host:port like host1:9091,host2:9092
Note: The tool wants exactly one of the options for addresses that the message names.
tools!> --bootstrap-server must be specified
tools!> You cannot specify both --bootstrap-controller and --bootstrap-server
tools!> One of the required --bootstrap-server
tools!> Only one of --bootstrap-server
tools!> Command must include exactly one action
Note: An option of the tool has no value, and the message names it. A shell variable in its place may be empty.
tools!> OptionMissingRequiredArgumentException
tools!> joptsimple … requires an argument
tools> requires an argument
Note: A topic's partitions can only become more: with fewer, records of a key would be elsewhere. Create another topic.
java> which is higher than the requested
Note: The class of this setting is not on the class path, or another class loader has it: in Flink, Connect, OSGi and application
servers, the library of the client belongs to the same loader as the code that creates the client (or set the thread's context loader).
java!> Invalid value … for configuration …: Class … could not be found
Note: A key store that is exchanged while the broker runs must have the former names (distinguished name and alternative names):
for other names, start the broker again.
java!> Keystore DistinguishedName does not match
java!> Keystore SubjectAltNames do not match
java!> Keystore entries do not match, existing store contains
Note: The application names the topic's replication or its replicas wrongly.
librdkafka> replication_factor out of expected range
tools!> The replication factor must be between 1 and
any> Requested replication factor (…) should be greater or equal to 1

== address-form
franz-go!> unable to fix broker address
franz-go> unable to split host:port for dialing
franz-go> does not match "host", nor "host:port", nor "scheme://host:port
franz-go!> unable to parse port from addr
kafka-go> could not determine host/port for SASL authentication
rskafka> Invalid host-port string
rskafka> Invalid port: …
ruby-kafka!> invalid protocol …
sarama> failed to get ServerName from addr
java!> Invalid url in bootstrap.servers
java!> Invalid port in bootstrap.servers
kafkajs!> Failed to connect: "…" must be in the form host:port
any> Cannot open null host
any> Cannot open without port
schema-registry!> Unknown local hostname

== library-lacks-feature
Note: The library is older than this Python, which no longer has a function that it calls: install a newer kafka-python.
kafka-python> module 'ssl' has no attribute 'wrap_socket'
Note: The package that speaks Kerberos is not installed in the program's environment. Install the package that the
message names.
kafka-python!> GSSAPI lib not found
kafka-python!> No GSSAPI lib available
any> Extension "krb5" is required for "GSSAPI"
librdkafka> SASL mechanism "…" not supported on platform
librdkafka!> OpenSSL required for upsertion
kafka-python> pip install xxhash for lz4 encoding
kafkajs!> KafkaJSNotImplemented: … compression not implemented
kafkajs!> compression not implemented
Note: The package for the login with AWS IAM is not added to the project. Add the package that the message names.
librdkafka!> The AWS IAM autowire path
librdkafka!> aws_iam OAUTHBEARER token retrieval is not implemented natively
rskafka> unsupported sasl mechanism

== credentials-unreadable
Note: The token that the program's own callback returns has expired: the clock is wrong, or the time is in another unit.
The callback of confluent-kafka for Python returns it in seconds since 1970, the librdkafka function takes milliseconds.
librdkafka!> Failed to acquire SASL OAUTHBEARER token: Must supply an unexpired token
librdkafka!> Must supply an unexpired token
Note:
librdkafka!> failed to add ssl.ca.pem certificate
librdkafka!> failed to read certificate #… from ssl.ca.pem
librdkafka!> ssl.crl.location failed
librdkafka!> Failed to use ssl.keystore.location
librdkafka> Invalid certificate encoding
Note: The token that the program's own provider returns is no JWT, has expired, or is empty. Print the token, and
decode it.
java!> Malformed JWT provided
java!> Empty JWT provided
java> token value must not be empty
librdkafka!> The token is invalid with more than 2 delimiters
librdkafka!> The token is invalid with less than 2 delimiters
librdkafka!> Expected JSON JWT response with
librdkafka!> Failed to decode JWT payload
librdkafka!> Failed to create JWT assertion
librdkafka!> SASL/OAUTHBEARER extension
kafkajs!> SASL OAUTHBEARER: Invalid OAuth bearer token
franz-go!> OAUTHBEARER token must be non-empty
sarama!> failed to build client first message: token is nil
kafkajs> Token must have a
franz-go> token request failed with status code
franz-go> access_token not found in token response
Note: The client cannot renew its token or ticket: the lines around it say why. Connections end when the old one expires.
java!> Expiring credential already expired
java!> No Expiring credential found
java!> LoginException during login retry
java!> No Expiring Credential after a supposedly-successful re-login
java!> KSQL OAuth Token
java!> Failed to acquire Azure token for Event Hub
sarama> failed to refresh token
java> Failed to obtain OAuth access token from
java> OAuth token response does not contain 'access_token' field
proxy!> refreshing of oidc-token failed
proxy!> refreshing of google-id-token failed
Note: The client has no credentials of AWS where the program runs: set a profile, variables or a role (instance profile, IRSA, task
role), and the region.
kafka-python!> Unable to determine region for AWS MSK cluster
java> Exception loading credentials. Retry Attempts
java!> does not belong to a valid region
proxy!> Failed to create IAM Auth
Note: Redpanda's tool is not logged in to its cloud: `rpk cloud login`.
franz-go!> rpk cloud login
Note: The Kerberos client of the program cannot begin: the words after it are of its library.
sarama!> Kerberos client initialization error
franz-go> failed to create kerberos config from specified config filepath
Note: The file that a token is in cannot be read where the program runs. Correct its path or its rights there.
franz-go> failed to open token file

== jaas
Note: The class path of the program lacks the class, or its name has a typing error. Compare the name with the class
in the library, and add the library to the class path.
java!> unable to find LoginModule class
Note: The JAAS file has no section of this name: `KafkaClient` for a client, `KafkaServer` for a broker, `Client` for its login at
ZooKeeper.
java!> No JAAS configuration section named
Note:
java!> entry in this JAAS configuration
java!> should be prefixed with SASL mechanism name, ignoring config
java> Must supply exactly 1 non-null JAAS mechanism configuration
java!> Exactly one jaasConfigEntry expected
java> Login modules not specified in JAAS config
proxy!> cannot retrieve jaas username
proxy!> cannot retrieve jaas password

== not-about-reaching-kafka
Note: The program uses its client before it is connected: wait for `connect()`, and look at the error that it gives.
librdkafka!> without awaiting connect()
librdkafka> can only be called while connected
librdkafka> must be called after a successful connect()
librdkafka> Producer not connected
librdkafka> Admin client is not connected
librdkafka!> Existing client must be connected before creating a new client from it
Note: Kafka Connect's REST server cannot be reached, or has refused the connector's configuration. It is not Kafka.
franz-go> connect cluster is not reachable
franz-go!> failed to get cluster connectors
franz-go!> failed to list connectors from Kafka connect cluster
franz-go> failed to validate connector config
Note: An application on top of Kafka handles a record, a reply or its own method wrongly; the connection works.
java!> Listener method '…' threw exception
java!> Listener method could not be invoked with the incoming message
java!> @KafkaListener
java!> No Acknowledgment available as an argument
java!> Reply timed out
java!> Stopping after connector error
""")
