"""Faults of what a client needs before it can log in or use TLS: JAAS, and the parts of its own build.

Sources of the messages: clients/.../security/JaasConfig.java and JaasContext.java of Apache Kafka; rdkafka_conf.c and
rdkafka_sasl*.c of librdkafka; aws-msk-iam-auth.
"""

from __future__ import annotations

from kproxy.advice.remedies.remedy import parse_remedies

TABLE = parse_remedies("""
== jaas: The login module's configuration cannot be used
`sasl.jaas.config` has one login module, a control flag, its options in quotes and a semicolon at the end. The module's
class must fit the mechanism, and must be on the class path of the program that loads it.
Check: Compare the value with `CLASS required username="USER" password="PASSWORD";`.
Fix: Set `sasl.jaas.config` to `org.apache.kafka.common.security.plain.PlainLoginModule required username="USER"
password="PASSWORD";` for PLAIN, with `scram.ScramLoginModule` for SCRAM, `oauthbearer.OAuthBearerLoginModule` for
OAUTHBEARER and `com.sun.security.auth.module.Krb5LoginModule` for GSSAPI.
Note: `required` is missing between the class and its options, or a part of the value was lost, for example `$` or
quotes in a shell or in Compose. The value is `CLASS required username="USER" password="PASSWORD";`, in Compose with
`$$` for each `$`.
java!> Login module control flag not specified in JAAS config
java!> Invalid login module control flag
java!> Login module not specified in JAAS config
Note: The semicolon at the end of the JAAS entry is missing: it is `CLASS required OPTIONS;`.
java!> JAAS config entry not terminated by semi-colon
Note: An option is not NAME="VALUE": put values in double quotes, and escape quotes within them.
java!> Value not specified for key … in JAAS config
java!> JAAS config property does not contain any login modules
java!> JAAS config property contains … login modules, should be 1 module
Note: The JAAS file has no such section, or the program does not read it: `KafkaClient { … };` in the file of
`-Djava.security.auth.login.config`. A value of `sasl.jaas.config` needs no file.
java!> Could not find a 'KafkaClient' entry in
java!> Could not find a 'KafkaServer' entry in
any*> No JAAS configuration section named 'Client' was found
java*> is not set to a JAAS configuration
java!> Could not find a 'KafkaServer' or
broker!> Could not find a 'KafkaServer' or '….KafkaServer' entry in the JAAS configuration
java!> Exception while loading Zookeeper JAAS login context
java!> No JAAS configuration section named
Note: The entry has no control flag, or is not an entry: `sasl.jaas.config` is `CLASS required OPTIONS;`, without the block
`KafkaClient { … }` of a file around it.
java!> Login module control flag is not available in the JAAS config
Note:
java!> Unexpected exception while parsing JAAS config
java!> No SASL mechanisms are enabled
java!> Callback handler not specified for SASL mechanism
java?> java.lang.SecurityException: java.io.IOException: Configuration Error
java?> Configuration Error: … Line …: expected
java?> No LoginModules configured for
Note: The program shades Kafka's classes, as Databricks does: the class of the login module is
`kafkashaded.org.apache.kafka.common.security.plain.PlainLoginModule` (or `scram.ScramLoginModule`) there.
java!> ClassCastException: class kafkashaded.org.apache.kafka
Note: The program has no login module of that name: it is misspelt, or the program shades Kafka's classes, as Databricks does
(`kafkashaded.org.apache.kafka.common.security.plain.PlainLoginModule`). Kafka has `plain.PlainLoginModule`, `scram.ScramLoginModule` and
`oauthbearer.OAuthBearerLoginModule`.
java!> No LoginModule found for org.apache.kafka.common.security
java!> unable to find LoginModule class: org.apache.kafka
any?> javax.security.auth.login.LoginException: No LoginModule found for …
Note: The library of AWS for IAM, `aws-msk-iam-auth`, is not on the class path. Add its jar
(`aws-msk-iam-auth-VERSION-all.jar`) to the libraries of the program.
java!> unable to find LoginModule class: software.amazon.msk.auth.iam.IAMLoginModule
java!> NoClassDefFoundError: software/amazon/msk
java!> ClassNotFoundException: software.amazon.msk
java!> No LoginModule found for software.amazon.msk.auth.iam.IAMLoginModule
java!> Class software.amazon.msk.auth.iam.IAMClientCallbackHandler could not be found
java!> software.amazon.msk.auth.iam.IAMClientCallbackHandler …could not be found
Note: Two class loaders have loaded Kafka's classes: two copies of kafka-clients are on the class path, one of them in
a plugin, a fat jar or the container's library directory. Leave one copy.
java!> Callback handler must be castable to org.apache.kafka.common.security.auth.AuthenticateCallbackHandler
java!> class org.apache.kafka.common.security.…cannot be cast to class
Note: The login module does not fit the mechanism: `ScramLoginModule` for `SCRAM-…`, `PlainLoginModule` for `PLAIN`,
`OAuthBearerLoginModule` for `OAUTHBEARER`.
java!> Failed to create SaslClient with mechanism …
java!> Unexpected callback type … for SASL
java> Channel could not be created for socket
java> Error connecting to node …: java.io.IOException: Channel could not be created
java!> Unrecognized SASL Login callback
Note: The client has no callback handler for its mechanism. For IAM of Amazon MSK, set
`sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler`.
java!> Unrecognized SASL ClientCallback
Note: `sasl.mechanism` is `GSSAPI` (Kerberos) unless it is set. If you mean a user and a password, set `sasl.mechanism`
to `PLAIN` or `SCRAM-SHA-…`. For Kerberos, set `sasl.kerberos.service.name`, mostly to `kafka`.
java!> No serviceName defined in either JAAS or Kafka config
java!> Conflicting serviceName values found in JAAS and Kafka configs

== library-lacks-feature: The client's library lacks a feature
The client's library was built or installed without TLS, SASL, a SASL mechanism or a compression codec. It has not
asked the broker for anything.
Check: `kcat -V` and the property `builtin.features` of librdkafka list what it was built with.
Fix: Install a build with the feature, or the package that it loads it from.
Note: The library was built without OpenSSL. Use the official packages or wheels; in Rust, the features `ssl` and `sasl`
of the crate `rdkafka`; in an image, install OpenSSL's headers (`libssl-dev`, `openssl-dev`) before the build.
librdkafka!> OpenSSL not available at build time
librdkafka!> Unsupported value "…" for configuration property "security.protocol"
librdkafka!> Invalid value "SASL_SSL" for configuration property "security.protocol"
librdkafka!> Invalid value "sasl_ssl" for configuration property "security.protocol"
librdkafka!> Invalid value "SSL" for configuration property "security.protocol"
librdkafka!> Invalid value "ssl" for configuration property "security.protocol"
librdkafka!> not available at build time
librdkafka!> No such configuration property: "ssl.
librdkafka!> "No such configuration property", "ssl.
librdkafka!> cannot configure 'security.protocol' property
librdkafka!> cannot configure 'ssl.…' property
librdkafka!> cannot configure 'sasl.…' property
Note: The client wants to log in with Kerberos (GSSAPI), and this build of the library cannot. GSSAPI is the default of
`sasl.mechanism`: for another login, set it to the mechanism that the broker enables. For Kerberos, install a build with
`sasl_gssapi`.
librdkafka!> No provider for SASL mechanism GSSAPI
librdkafka!> No provider for SASL mechanism GSSAPI: recompile librdkafka with libsasl2 or openssl support
Note: The library was built without OpenSSL, which SCRAM and OAUTHBEARER need: install `libssl-dev` (`openssl-devel`) before
the build, or a package with `sasl_scram`.
librdkafka!> No provider for SASL mechanism SCRAM-SHA-…: recompile librdkafka with libsasl2 or openssl support
librdkafka!> No provider for SASL mechanism OAUTHBEARER: recompile librdkafka with libsasl2 or openssl support
Note: The library was built without Cyrus SASL, which Kerberos needs: install `libsasl2-dev` (`cyrus-sasl-devel`) before
the build, or a package with `sasl_gssapi`.
librdkafka!> No provider for SASL mechanism …: recompile librdkafka with libsasl2 or openssl support
librdkafka!> No provider for SASL mechanism
librdkafka!> recompile librdkafka with
librdkafka!> No such configuration property: "sasl.
librdkafka!> "No such configuration property", "sasl.
Note: The modules of Cyrus SASL for this mechanism are not installed: `libsasl2-modules-gssapi-mit` (Debian),
`cyrus-sasl-gssapi` (Red Hat), `cyrus-sasl-gssapiv2` (Alpine).
any*> No worthy mechs found
any?> no mechanism available: No worthy mechs found
Note: The codec is not installed: install `python-snappy`, `lz4`, `zstandard` or `kafkajs-snappy`, or choose another
`compression.type`.
kafka-python!> UnsupportedCodecError
kafka-python!> Libraries for … compression codec not found
kafkajs!> KafkaJSNotImplemented: … compression not implemented
kafkajs!> KafkaJSNotImplemented: Snappy compression not implemented
kafka-node!> Snappy codec is not installed
librdkafka> Unsupported compression
java?> java.lang.UnsatisfiedLinkError: … snappy
java?> Could not initialize class org.xerial.snappy.Snappy
java?> org.xerial.snappy.SnappyError: [FAILED_TO_LOAD_NATIVE_LIBRARY]
kafka-python!> gssapi lib not available
ruby-kafka!> you need to install the …gssapi… gem
Note: A class of Kafka is not on the class path: the archive has only the sources, a jar is missing, or the class has
another name in this version.
java?> java.lang.NoClassDefFoundError: org/apache/kafka
tools!> NoClassDefFoundError: kafka/
tools!> ClassNotFoundException: kafka.
java?> java.lang.ClassNotFoundException: org.apache.kafka
tools!> Could not find or load main class kafka.
tools!> Could not find or load main class org.apache.kafka.
tools!> Classpath is empty. Please build the project first
Note: This Python has no module of that name: kafka-python is the package for `import kafka`, confluent-kafka for
`import confluent_kafka`. kafka-python before 2.0.3 does not work with Python 3.12.
kafka-python!> No module named 'kafka.vendor.six.moves'
kafka-python!> return '<SimpleProducer batch=%s>' % self.async
kafka-python!> No module named 'kafka'
librdkafka!> No module named 'confluent_kafka'
aiokafka!> No module named 'aiokafka'
Note: A file of your own with the name `kafka.py` or a folder `kafka` hides the package, or the installed version has
another name for the class. Rename your file, or install the version for which the program is written.
kafka-python!> module 'kafka' has no attribute
kafka-python!> cannot import name 'KafkaProducer'
kafka-python!> cannot import name 'KafkaConsumer'
kafka-python!> cannot import name 'KafkaClient'
librdkafka!> cannot import name 'Producer' from
Note: The program has no connector for Kafka on its class path: for Flink, `flink-sql-connector-kafka` of the version
that fits goes into `lib/`.
java!> Could not find any factory for identifier 'kafka'
java!> Could not find any factory for identifier 'upsert-kafka'
java?> org.apache.flink.connector.kafka
java?> NoClassDefFoundError: org/apache/flink/connector/kafka
java?> NoClassDefFoundError: org/apache/flink/streaming/connectors/kafka
Note: This ClickHouse was built without Kafka: take an official package.
any!> Unknown table engine Kafka
Note: The native library librdkafka, or a library that it needs, is not where the program looks for it. Install the
package for this system and processor: images with musl (Alpine), ARM and old glibc need a build of their own.
librdkafka!> while importing cimpl
any*> libssl.so.…: cannot open shared object file
any*> libcrypto.so.…: cannot open shared object file
any*> libsasl2.so.…: cannot open shared object file
librdkafka!> librdkafka.so.1: cannot open shared object file
librdkafka!> librdkafka++.so.1: cannot open shared object file
librdkafka!> librdkafka.so: cannot open shared object file
librdkafka!> Failed to load the librdkafka native library
librdkafka!> Unable to load shared library 'librdkafka'
librdkafka!> Unable to load DLL 'librdkafka'
librdkafka!> Cannot find module '../build/Release/node-librdkafka.node'
librdkafka!> build/Release/confluent-kafka-javascript.node
librdkafka!> node-librdkafka.node: invalid ELF header
librdkafka!> Class 'RdKafka
librdkafka!> Class "RdKafka
librdkafka!> librdkafka/rdkafka.h: No such file or directory
librdkafka!> librdkafka not built with SASL OAUTHBEARER support
librdkafka!> Endpoint identification not supported on this OpenSSL version
""")
