"""Clients log in at kproxy: the server of their SASL login, in the place of the brokers, or by their certificates.

    outcomes       what a step of a login ends with
    authenticator  the order of the messages in one session, as a broker has it (sans-IO)
    scram          SCRAM-SHA-256 and SCRAM-SHA-512, by the verifiers of the users file
    plain          PLAIN, by the same verifiers
    oauthbearer    OAUTHBEARER
    tokens         verifies tokens (JWT) by the keys of an OIDC server
    certificate    the login by a certificate: what passes before its end (sans-IO)
    principals     the user of a certificate, by Kafka's rules
    username       the user name in a login that passes to the broker (pure)
    failures       how long the answer to a failed login takes, and how many may wait (sans-IO)

The order is that of Kafka's `SaslServerAuthenticator`. ApiVersions may come first, once, and passes to the broker. Then
come SaslHandshake, and the tokens of the mechanism: in SaslAuthenticate, or after SaslHandshake v0 without a header.
Anything else closes the connection. No byte of the login reaches a broker, and no other request before its end.

 * In a session, the authenticator is an authorizer (`kproxy.proxy.relay.judged`): it judges each request until the
   login has succeeded. Then the usual calls take its place, so the login costs nothing for each frame.
 * A step takes its time beside the event loop: the session is held meanwhile, as for a login of kproxy's own. With the
   last token, and before the client gets its answer, kproxy logs in to the broker for this user and verifies the node.
 * A failed login is answered after a pause, as by a broker (connection.failed.authentication.delay.ms), and the
   connection is closed. The pause grows with the failures of an address (`failures`).
 * An unknown user gets the challenge of a verifier that kproxy derives from the name and a secret of the process. So
   the answers to an unknown user and to a wrong password are the same, and take the same work. A broker refuses an
   unknown user of SCRAM one message earlier.
 * With a lifetime (KIP-368), the client logs in again within the session, as the same user and with the same mechanism.
   If it does not in time, its next request closes the connection.
"""
