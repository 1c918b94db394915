"""Messages about key stores, passwords, tokens, Kerberos' tickets, clocks and rights.

Sources of the messages: clients/.../security/JaasConfig.java, JaasContext.java, ssl/DefaultSslEngineFactory.java and
oauthbearer/ of Apache Kafka; rdkafka_ssl.c, rdkafka_sasl*.c and rdkafka_conf.c of librdkafka; aws-msk-iam-auth; MIT
Kerberos; the JDK's Krb5LoginModule.
"""

from __future__ import annotations

from kproxy.advice.remedies.remedy import parse_messages

MESSAGES = parse_messages("""
== credentials-unreadable
Note: PEM key stores and trust stores have no password of the store: remove `ssl.truststore.password` or
`ssl.keystore.password`. The password of an encrypted private key is `ssl.key.password`.
java!> SSL trust store password cannot be specified for PEM format
java!> SSL key store password cannot be specified with PEM format
java!> SSL key store password cannot be specified for PEM format
java!> SSL trust store certs can be specified only for PEM, but trust store type is
java!> SSL certificate chain and private key can be specified only for PEM
Note: The private key is not in PKCS#8, the only form that Java reads from PEM. A file that begins with `BEGIN RSA
PRIVATE KEY` is PKCS#1: convert it with `openssl pkcs8 -topk8 -nocrypt -in key.pem -out key-pkcs8.pem`.
java!> No matching PRIVATE KEY entries in PEM file
java!> Private key could not be loaded
any*> 'PKCS #1' format is not supported
any?> PKCS#1 …not supported
java?> InvalidKeySpecException: … algid parse error, not a sequence
java*> algid parse error, not a sequence
java> InvalidKeySpecException: java.security.InvalidKeyException: invalid key format
any*> DECODER routines::unsupported
any?> ERR_OSSL_UNSUPPORTED
any?> unsupported PEM
Note: The PEM file or value has no certificate or key of the kind that the setting wants: a key store has one private
key and its certificates, a trust store has certificates only. The line `Caused by` below it has the reason.
java!> No matching … entries in PEM file
java!> Private key not provided
java!> Expected one private key, but found
java!> Failed to load PEM SSL keystore
java!> Failed to load PEM SSL truststore
java!> Invalid PEM keystore configs
Note: The private key is not encrypted, but `ssl.key.password` is set: remove it. Some programs set it by themselves if
the key store has a password. Or the key is not in PKCS#8, the only form that Java reads from PEM.
java?> java.io.IOException: overrun, bytes =
Note: The key store was made with newer algorithms than this version of Java can read. Use a newer Java (8u301, 11.0.12
or later), or make the file again with `openssl pkcs12 -export -legacy`, or `keytool -J-Dkeystore.pkcs12.legacy`.
java?> parseAlgParameters failed
java?> Integrity check failed: java.security.NoSuchAlgorithmException: Algorithm HmacPBESHA256 not available
java?> Algorithm HmacPBESHA256 not available
Note: The password of a key store is missing: `ssl.truststore.password`, `ssl.keystore.password` or `ssl.key.password`.
java!> SSL trust store is specified, but
librdkafka!> …ssl.keystore.password… is mandatory when …ssl.keystore.location
java!> SSL key store is specified, but key store password is not specified
java!> SSL PEM key store is specified, but key password is not specified
java!> SSL key store password is not specified
Note: The password of the key store or trust store is wrong: `keytool -list -keystore FILE` or `openssl pkcs12 -info -in
FILE` shows whether it opens the file.
java*> keystore password was incorrect
java*> Keystore was tampered with, or password was incorrect
java?> failed to decrypt safe contents entry
java?> Cannot recover key
java?> UnrecoverableKeyException
any*> mac verify failure
any*> PKCS12 key store mac invalid
java?> Given final block not properly padded
Note: The library librdkafka reads PEM and PKCS#12, and no key store or trust store of Java: convert it (`keytool -exportcert
-rfc`, `openssl pkcs12`), and set `ssl.ca.location`, `ssl.certificate.location` and `ssl.key.location`.
librdkafka!> Java TrustStores are not supported
librdkafka!> Error reading PKCS#12 file
librdkafka!> Error reading PKCS#12 file: … header too long
librdkafka!> Failed to parse ssl.keystore.location PKCS#12 file: … header too long
librdkafka!> Failed to parse ssl.keystore.location PKCS#12 file: … wrong tag
librdkafka!> Failed to parse ssl.keystore.location PKCS#12 file: … not enough data
Note: The PKCS#12 file is encrypted with an algorithm that OpenSSL 3 has only in its provider `legacy` (RC2-40): write it anew
(`openssl pkcs12 -legacy -in OLD -nodes`, then `openssl pkcs12 -export`), or use PEM files.
librdkafka!> Failed to parse ssl.keystore.location PKCS#12 file: … (RC2-40-CBC
librdkafka!> Failed to parse ssl.keystore.location PKCS#12 file: … digital envelope routines::unsupported
librdkafka!> Error reading PKCS#12 file: … (RC2-40-CBC
any?> Algorithm (RC2-40-CBC
Note: The library librdkafka has no `sasl.jaas.config`, which is Java's: set `sasl.username`, `sasl.password` and
`sasl.mechanism`.
librdkafka!> Java JAAS configuration is not supported
Note: The file is not of the type in `ssl.keystore.type` or `ssl.truststore.type` (JKS unless set). For a PEM file, set
it to `PEM`; for a .p12 or .pfx file, to `PKCS12`.
java?> java.io.IOException: Invalid keystore format
java*> Invalid keystore format
java*> DerInputStream.getLength(): lengthTag=
java?> toDerInputStream rejects tag type
java?> DER input, Integer tag error
java?> Tag number over 30 is not supported
java?> stream does not represent a PKCS12 key store
Note: The file of the key store does not exist where the program runs: inside a container its path is another one than on
the host.
java!> SSL keystore … of type … not found
Note: Java cannot read the key store: a wrong password, another type than `ssl.keystore.type` or
`ssl.truststore.type`, or no such file. The line `Caused by` below it says which; some programs cut it off.
java!> Failed to load SSL keystore … of type
java!> Failed to load SSL keystore … of type …
Note: The trust store has no certificate: the import has failed, or the path is another file.
java*> the trustAnchors parameter must be non-empty
java!> At least one certificate expected, but none found
java!> Invalid PEM truststore configs
Note: The program's user may not read the file with keys: correct its owner or rights.
java?> .jks (Permission denied)
java?> .p12 (Permission denied)
java?> .pem (Permission denied)
java?> .keytab (Permission denied)
java?> java.nio.file.AccessDeniedException
java?> java.nio.file.AccessDeniedException: /
Note: The file of keys or certificates does not exist where the program runs: inside a container its path is another one
than on the host, and `classpath:` works only where the framework says so.
java> Modification time of key store could not be obtained
broker!> In order to configure the TLS encryption for Kafka with
broker!> you must mount your kafka.keystore
java?> java.nio.file.NoSuchFileException: /
java?> java.nio.file.NoSuchFileException: ….jks
java?> java.nio.file.NoSuchFileException: ….p12
java?> java.nio.file.NoSuchFileException: ….pem
any?> .jks (No such file or directory)
any?> .p12 (No such file or directory)
any?> .pem (No such file or directory)
any?> .pem: no such file or directory
any?> .crt: no such file or directory
any?> ENOENT: no such file or directory, open
Note: The client finds no CAs, because its own OpenSSL looks for them in a directory that does not exist here. Set `ssl.ca.location` to the
system's bundle (`/etc/ssl/certs/ca-certificates.crt`, `/etc/pki/tls/certs/ca-bundle.crt`), or to `probe`.
librdkafka!> …No such file or directory: calling stat(/usr/local/ssl/certs)
librdkafka!> calling stat(…/ssl/certs)
librdkafka!> error:80000002:system library
Note: The CA file in `ssl_cafile`, or the certificate or key in `ssl_certfile` and `ssl_keyfile`, cannot be used: it does not
exist where the program runs (a path without a directory begins where the program was started), or it is not PEM.
kafka-python> self._ssl_context.load_verify_locations(
kafka-python> self._ssl_context.load_cert_chain(
Note: The CA file in `ssl.ca.location` cannot be used: it does not exist where the program runs, its user may not read it,
or it has no certificate in PEM.
librdkafka!> failed to load CA certificate
librdkafka!> ssl.ca.location failed
Note: The file of keys or certificates does not exist where the program runs, its user may not read it, or it is not PEM
(PKCS#12 for `ssl.keystore.location`). The words of OpenSSL after it say which.
librdkafka!> Failed to open ssl.keystore.location
librdkafka!> x509 certificate routines::no certificate or crl found
librdkafka!> Error reading ssl.keystore.location
librdkafka!> Failed to parse ssl.keystore.location
Note: The value of the setting is no PEM: it begins with `-----BEGIN` and has real line ends, not the two characters
`\n`, which variables and JSON often make of them.
librdkafka!> ssl.certificate.pem failed
librdkafka!> ssl.key.pem failed
librdkafka!> ssl.ca.pem failed
librdkafka!> ssl_key (in-memory) failed
librdkafka!> ssl_cert failed
librdkafka!> ssl_ca failed
Note: The private key is encrypted: set `ssl.key.password`.
librdkafka!> Private key requires password but no password configured
Note: The key does not belong to the certificate, or the password of the key is wrong. `openssl x509 -noout -pubkey`
and `openssl pkey -pubout` print the same for a pair.
any?> key values mismatch
any?> tls: private key does not match public key
librdkafka!> Private key check failed
any?> bad decrypt
Note: No PEM was found: the file is DER or a Java key store (JKS), or is empty. Convert it: `keytool -exportcert -rfc`
for a CA, `openssl pkcs12` for a key.
any?> tls: failed to find any PEM data
any?> PEM routines::no start line
any?> PEM routines:get_name:no start line
any?> PEM_read_bio:no start line
any?> error:0909006C
any?> Could not parse PEM certificate
any?> [SSL] PEM lib
any?> bad base64 decode
any?> asn1: structure error
any?> unable to load certificate
any?> No certificate data found
any?> signed fields invalid
Note: The client has no credentials of AWS where the program runs: set a profile, variables or a role (instance profile, IRSA, task
role), and the region.
java!> Failed to find AWS IAM Credentials
java?> Unable to load credentials from any of the providers in the chain
java?> Unable to load AWS credentials from any provider in the chain
any?> NoCredentialProviders: no valid providers in chain
any?> failed to refresh cached credentials, no EC2 IMDS role found
any?> Unable to locate credentials
any?> Could not load credentials from any providers
any?> is not authorized to perform: sts:AssumeRole
any?> Not authorized to perform sts:AssumeRoleWithWebIdentity
any?> NoCredentialsError
any?> Unable to load region from any of the providers
any?> get credentials: failed to refresh
java!> AWS region could not be resolved
Note: The token server refuses the client id or its secret: correct `clientId` and `clientSecret` (Java), or
`sasl.oauthbearer.client.id` and `sasl.oauthbearer.client.secret`.
any?> "error":"invalid_client"
any?> "error": "invalid_client"
any?> "errorCode":"invalid_client"
any?> error response code: 401
java!> unauthorized_client
Note: The token server does not give this scope to this client: correct `scope`, or allow the scope there.
any?> "error":"invalid_scope"
any?> "error": "invalid_scope"
Note: The token server refuses the client itself: its id or secret is wrong, or it may not ask for such a token. The broker
was not asked yet.
java!> io.strimzi.kafka.oauth.common.HttpException: POST request to … failed with status 401
java!> io.strimzi.kafka.oauth.common.HttpException: POST request to … failed with status 400
any?> "error":"unauthorized_client"
Note: The token server has nothing at this URL: a path, a realm or a tenant in it is wrong (Keycloak since version 17 has no
`/auth` in its paths).
java!> io.strimzi.kafka.oauth.common.HttpException: POST request to … failed with status 404
Note: No class that fetches tokens is set, so the client uses one that is for tests only: set
`sasl.login.callback.handler.class` (for OIDC: `OAuthBearerLoginCallbackHandler`), and the URL of the token server.
java!> No principal name in JWT claim
java!> OAuthBearerUnsecuredLoginCallbackHandler
Note: The client cannot fetch a token: see `sasl.oauthbearer.token.endpoint.url`, the client id and secret, the scope,
and whether the token server's certificate is trusted.
java!> The token endpoint response
java!> io.strimzi.kafka.oauth.client
java!> The token endpoint URL
librdkafka!> sasl.oauthbearer.config
librdkafka!> oauthbearer_token_refresh_cb
java!> encountered reading the token endpoint response
java!> The OAuth login configuration encountered an error when initializing the AccessTokenRetriever
java!> No OAuth Bearer tokens in Subject's private credentials
java!> An internal error occurred while retrieving token from callback handler
librdkafka!> OAUTHBEARER cannot log in because there is no token available
librdkafka!> Failed to retrieve JWT token from
java!> HttpAccessTokenRetriever
java!> HttpJwtRetriever
librdkafka!> Failed to acquire SASL OAUTHBEARER token
librdkafka!> Failed to retrieve OIDC token
kafkajs!> Missing OAuth bearer token provider
Note: Since Kafka 4.0, the URLs of token and JWKS endpoints must be listed in the system property
`org.apache.kafka.sasl.oauthbearer.allowed.urls` (KIP-1139). Start the program with
`-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=URL,URL`.
java!> org.apache.kafka.sasl.oauthbearer.allowed.urls
java!> sasl.oauthbearer.allowed.urls
Note: The broker cannot read the keys of the token server (JWKS): see `sasl.oauthbearer.jwks.endpoint.url`, whether the
broker reaches it, and whether the broker's JVM trusts its certificate.
java!> The OAuth validator configuration encountered an error when initializing the VerificationKeyResolver
java!> Could not refresh JWKS
java!> Failed to fetch public keys needed to validate JWT signatures
java!> OAuth JWKS refresh of
java!> Unable to find a suitable verification key for JWS
java?> UnresolvableKeyException

== credentials-refused
Note: The broker refuses the OAuth token: it has expired, or its issuer, audience, scope or signature is not the one
that the broker expects. Decode the token, and compare it with `sasl.oauthbearer.expected.issuer` and
`sasl.oauthbearer.expected.audience`.
java!> {"status":"invalid_token"
any*> "status":"invalid_token"
java!> io.strimzi.kafka.oauth.validator.TokenExpiredException
java!> io.strimzi.kafka.oauth.validator.TokenValidationException
librdkafka!> {"status":"invalid_token"
java!> rejected due to invalid claims
java!> OAuthBearerIllegalTokenException
java!> Could not validate the access token
java!> Could not process the access token
java!> io.strimzi.kafka.oauth.validator
kafkajs!> SASL OAUTHBEARER authentication failed
Note: The broker refuses the login without a message: it closes the connection so with the wrong user, password or mechanism
if the client logs in by SaslHandshake version 0. Check the credentials, and that the user exists for this mechanism
(a user of SCRAM-SHA-256 is none of SCRAM-SHA-512). Set `Net.SASL.Version` to 1 in Sarama to get the broker's message.
sarama!> Failed to read response header while authenticating with SASL to broker …
sarama!> Failed to read response while authenticating with SASL to broker …
sarama!> Failed to read SASL handshake payload
Note: The principal of IAM lacks the right `kafka-cluster:Connect` on this cluster, or the credentials have expired.
Add the right to its policy, or fetch new credentials.
java> Access denied
sarama> Access denied
franz-go> Access denied
kafka-go> Access denied
kafka-python> Access denied
Note: The credentials of AWS have expired, or end too soon: Amazon MSK refuses a session that is about to end. Fetch new ones,
and let the program fetch them by itself.
any?> The security token included in the request is expired
any?> The security token included in the request is invalid
any?> Session too short
Note: The principal of IAM lacks the right `kafka-cluster:Connect` on this cluster, or the credentials have expired.
Add the right to its policy, or fetch new credentials.
any?> kafka-cluster:Connect
librdkafka> Access denied
Note: The client has renewed its login as another principal than before, and a connection keeps its principal: make the
program's credentials the same each time (with IAM, the same role), or start it again after a change.
java!> Cannot change principals during re-authentication
librdkafka!> Cannot change principals during re-authentication
franz-go!> Cannot change principals during re-authentication
Note: The user or password is wrong, or the user has no credentials for this mechanism.
kafka-go!> SASL Authentication Failed
java!> Authentication failed: username not specified
java!> Authentication failed: password not specified
java!> Authentication failed: Client requested an authorization id that is different from username
any?> Username not specified
any?> Password not specified
ruby-kafka!> FailedScramAuthentication
ruby-kafka!> SASL PLAIN authentication failed
rskafka!> Sasl handshake failed
kafka-node!> SaslAuthenticationError
librdkafka!> SASL SCRAM authentication failed
sarama!> Error while performing SASL Auth
sarama!> kafka: unknown SCRAM mechanism provided
java!> Authentication failed during authentication due to invalid credentials with SASL mechanism
broker!> stored and client submitted credentials do not match

== kerberos
Note: The words after this say what Kerberos refuses; they are of the library of Kerberos, and not of Kafka.
any*> Unspecified GSS failure
any*> GSSAPI Error
any*> GSS initiate failed
any*> GSSException
any*> KrbException
any?> Minor code may provide more information
Note: The KDC has no service principal for the name to which the client connects. It must be `kafka/HOST@REALM` with
exactly that host name: advertise the name that is in the keytab, and check reverse DNS (`rdns = false` in krb5.conf).
any*> not found in Kerberos database
any*> Server not found in Kerberos database
any?> Wrong principal in request
any?> KDC reply did not match expectations
any*> Cannot determine realm for
any?> Hostname cannot be canonicalized
any?> Server rejected authentication
any?> Service key not available
any?> Ticket/authenticator don't match
any?> The ticket isn't for us
any?> Incorrect net address
any?> Malformed representation of principal
java?> (7) - LOOKING_UP_SERVER
any?> KDC_ERR_S_PRINCIPAL_UNKNOWN
Note: The KDC does not know the client's principal: a typo, or the wrong realm.
any*> Client not found in Kerberos database
any?> Client … not found in Kerberos database
any?> KDC_ERR_C_PRINCIPAL_UNKNOWN
Note: The client has no Kerberos ticket: run `kinit` as the same user in the same environment, or set the keytab and principal.
any*> No Kerberos credentials available
any*> Matching credential not found
any?> No credentials were supplied, or the credentials were unavailable or inaccessible
any?> No credentials found with supported encryption types
any?> Credential cache is empty
any?> Bad format in credentials cache
any?> Credentials cache permissions incorrect
any?> Credentials cache I/O operation failed
any*> Cannot find ticket for requested realm
any?> No credentials cache found
any*> Failed to find any Kerberos tgt
java*> Failed to find any Kerberos tgt
any*> Ticket expired
any?> Credentials cache file … not found
any*> in cache collection
any*> No valid credentials provided
Note: The program cannot use the Kerberos keytab: the path or the rights are wrong, or the keytab has no key for the principal.
`klist -kt FILE` lists its principals.
java*> Unable to obtain password from user
java*> Unable to obtain Principal Name for authentication
any*> Key table file … not found
any*> keytab contains no suitable keys
any*> No key table entry found
any*> Cannot find key of appropriate type to decrypt
any*> Key table entry not found
any?> from keytab
java!> Principal could not be determined from Subject
java!> the client is being asked for a password, but the Kafka client code does not currently support
java> Could not login: the client is being asked for a password, but the Kafka client code does not currently support
Note: The program does not know its Kerberos realm: set `default_realm` in krb5.conf, and let Java find the file
(`-Djava.security.krb5.conf`).
java*> Cannot locate default realm
java!> KrbException: Cannot locate default realm
any*> does not specify default realm
Note: The client cannot renew its Kerberos ticket: it is not renewable, or its cache has none any more. Use a keytab
(`useKeyTab=true`), or run `kinit` again.
java!> No TGT found: will try again
java!> The TGT cannot be renewed beyond the next expiry date
java!> Error when trying to re-Login
java!> Could not refresh TGT
java!> Failed to refresh TGT
java!> Could not renew TGT
Note: The name of Kafka's service in Kerberos is missing: set `sasl.kerberos.service.name`, mostly to `kafka`.
librdkafka!> sasl.kerberos.service.name must be set
Note: The KDC refuses the account of the client: its password has expired, or it is locked or needs its password.
any?> Password has expired
any?> Additional pre-authentication required
any*> credentials have been revoked
any*> Client's entry in database has expired
Note: The KDC cannot be reached from the client's machine, or the realm is not in krb5.conf. `kinit` on that machine
shows the same: open the way to port 88 of the KDC, or correct the realm in krb5.conf.
java*> Cannot locate KDC
java?> ICMP Port Unreachable
java?> java.net.PortUnreachableException
any*> Cannot contact any KDC for requested realm
any*> Cannot resolve network address for KDC in requested realm
any*> failed to communicate with KDC
any?> failed sending AS_REQ to KDC
any?> no KDCs defined in configuration for realm
Note: The KDC refuses the client, or cannot be reached: the words after this say which.
any?> KDC_Error
any?> AS Exchange Error
any?> TGS Exchange Error
any?> KRBMessage_Handling_Error
Note: The password or the keytab of the client is not the KDC's. Try it with `kinit -kt FILE PRINCIPAL`, and export
the keytab again.
any?> AS_REP is not valid or client password/keytab incorrect
any?> error decrypting AS_REP
any?> KDC_ERR_PREAUTH_FAILED
Note: The KDC cannot be reached from the client's machine, or the realm is not in krb5.conf. `kinit` on that machine
shows the same: open the way to port 88 of the KDC, or correct the realm in krb5.conf.
any?> failed sending AS_REQ to KDC
any?> failed sending TGS_REQ to KDC
any?> error sending to a KDC
any?> Can't open/find Kerberos configuration file
any?> Improper format of Kerberos configuration file
any?> Realm not local to KDC
any*> Cannot find KDC for realm
any*> Cannot contact any KDC for realm
any?> Cannot find KDC for requested realm
java?> KrbException: Cannot locate
java*> LoginException: Receive timed out
java*> LoginException: Connection refused
java*> LoginException: ICMP Port Unreachable
any*> unable to reach any KDC in realm
Note: The key in the keytab is no longer the KDC's: export the keytab again. Both sides must allow its encryption type.
java?> Checksum failed
any*> (Mechanism level: Checksum failed)
any*> Preauthentication failed
any*> Pre-authentication information was invalid
any*> Integrity check on decrypted field failed
any*> KDC has no support for encryption type
any?> Program lacks support for encryption type
any?> Encryption type not permitted
any?> No supported encryption types
any?> Key version is not available
any?> Key version number for principal in key table is incorrect
any?> Bad format in keytab
java*> Encryption type AES256 CTS mode with HMAC SHA1-96 is not supported/enabled
any*> Message stream modified
any*> Encryption type … is not supported
any?> Decrypt integrity check failed
java?> Specified version of key is not available
Note: The program that renews tickets cannot be run: install `kinit` (krb5-user, krb5-workstation), or set
`sasl.kerberos.kinit.cmd`.
any?> kinit: not found
java!> Error when trying to renew with TicketCache
any?> Cannot run program "/usr/bin/kinit"
any?> Cannot run program "kinit"
any?> kinit: command not found
librdkafka!> Kerberos ticket refresh failed

== clock
Note: The clocks of the client and of the KDC differ by more than five minutes. Let both take their time from a time
server (NTP).
java!> Check clock sync between this host and KDC
any*> Clock skew too great
java*> Clock skew too great
any?> KRB_AP_ERR_SKEW
any?> Ticket not yet valid
any*> clock skew with KDC too large
any*> clock skew with service detected to be too large
java!> This may indicate a clock skew problem
any?> Token used before issued
any?> Signature expired:

== not-authorized
Note: Java's and librdkafka's producers are idempotent by default since Kafka 3.0. With brokers before 2.8, that needs
the right `IdempotentWrite` on the cluster. Add it (`kafka-acls --add --allow-principal User:NAME --operation
IdempotentWrite --cluster`), or set `enable.idempotence=false`. Otherwise the user lacks another right on the cluster.
java!> ClusterAuthorizationException: Cluster authorization failed
java!> ClusterAuthorizationException: …
librdkafka!> Failed to acquire idempotence PID … Cluster authorization failed
librdkafka!> Cluster authorization failed
java!> The producer is not authorized to do idempotent sends
java!> Cluster authorization failed
kafka-go!> Cluster Authorization Failed
Note: A transactional producer needs `Write` and `Describe` on its `transactional.id`.
java!> Transactional Id authorization failed
librdkafka!> Transactional Id authorization failed
kafka-go!> Transactional ID Authorization Failed
Note: A consumer needs `Read` on its group.
kafka-go!> Group Authorization Failed
ruby-kafka!> Kafka::GroupAuthorizationFailed
Note: A producer needs `Write`, a consumer `Read` and both `Describe` on the topic. A topic that does not exist gives
the same answer to a user without `Describe`.
kafka-go!> Topic Authorization Failed
ruby-kafka!> Kafka::TopicAuthorizationFailed
Note:
broker!> Principal = … is Denied Operation = … from host = … on resource =
java!> Topic authorization failed for topics
java!> Not authorized to commit to topics
rskafka!> TopicAuthorizationFailed
""")
