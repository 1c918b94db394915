"""Logging in to a broker on the client's behalf.

mechanism      the tokens of one login, as pure steps: PLAIN, OAUTHBEARER, SCRAM (pure)
kerberos       the steps of GSSAPI, which ask the KDC
aws            the one step of AWS_MSK_IAM, which may ask AWS for credentials
exchange       the requests and responses that carry the tokens, on a new connection or within a session (pure)
secrets        reads a password or a token from a file or a command; pauses after failures
oidc           fetches a token from an OIDC server
blockingcalls  runs calls that may block for long in threads, beside the event loop
credentials    where the credentials of a login come from; those of the options
userlogins     the credentials of each user who logs in at kproxy: from the users file, or from a command
login          the logins of one cluster: the credentials, and a pause before refused ones are tried again
"""
