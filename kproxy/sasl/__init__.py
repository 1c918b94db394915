"""Logging in to a broker on the client's behalf.

mechanism   one login's tokens, as pure steps: PLAIN, OAUTHBEARER, SCRAM (pure)
kerberos    GSSAPI's steps, which ask the KDC
aws         AWS_MSK_IAM's one step, which may ask AWS for credentials
exchange    the requests and responses that carry the tokens, for a new connection or within a session (pure)
secrets     a password or a token from a file or a command
oidc        a token from an OIDC server
aside       calls that may block for long, beside the event loop
backoff     when to try again what has failed
login       one cluster's logins: what to log in with, and not again and again with what was refused
relogin     a session's next logins, between the client's requests
"""
