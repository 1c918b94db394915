"""Messages about clients that log in at kproxy."""

from __future__ import annotations

from functools import partial

from kproxy.base.faults import Fault
from kproxy.base.messages.message import Message

_login = partial(Message, reason="client-login")

CLIENT_LOGIN_FAILED = _login(
    "cluster {cluster}: the login of {client}{user} with {mechanism} failed: {problem}",
    "The client gets the error of a broker, and a pause before it. `kproxy users check` shows the users of the users file.",
    fault=Fault.CREDENTIALS_REFUSED,
)
NOT_LOGGED_IN = _login(
    "the client sent {api} before it had logged in: clients of this cluster log in at kproxy (--client-sasl): set sasl.mechanism in the client, and security.protocol=SASL_PLAINTEXT, or SASL_SSL with --client-tls-cert",
    "With `--client-sasl`, kproxy is the server of the login. A client without credentials is refused, as by a broker.",
    fault=Fault.LOGIN_NEEDED,
)
LOGIN_OUT_OF_ORDER = _login(
    "the client sent {api} where its login has no place for it",
    "The client does not follow the order of Kafka's login: ApiVersions at most once, SaslHandshake, SaslAuthenticate.",
)
LOGIN_MESSAGE_TOO_LONG = _login(
    "the client sent a message of {size} bytes during its login; kproxy takes {most}",
    "A token of an OIDC server has some KiB. It is no Kafka client, or the port is that of another protocol.",
)
NO_GSSAPI_HERE = _login(
    "the client began with a token of GSSAPI, which is no mechanism of --client-sasl",
    "A client of Kafka 0.9 does so. Use one of the mechanisms of `--client-sasl`.",
    fault=Fault.SASL_MECHANISM,
)
OTHER_MECHANISM = _login(
    "the client began a new login with another mechanism than {mechanism}",
    "Kafka demands that a client logs in again with the same mechanism, within one connection.",
)
LOGIN_EXPIRED = Message(
    "the login of the client has expired, and it sent {api} before it logged in again",
    "Its lifetime is that of `--client-login-lifetime`, or of the token. Clients that know KIP-368 log in again in time; "
    "others connect again.",
    reason="login-expired",
)
TOO_MANY_FAILED_LOGINS = _login(
    "too many failed logins of {host} wait for their answer",
    "A client of this address repeats a login with a wrong password. kproxy closes further logins of the address until "
    "some of the failed ones have their answer.",
    fault=Fault.CREDENTIALS_REFUSED,
)
LOGIN_TOO_SLOW = _login(
    "the client did not log in within {seconds:g} s",
    "The client connects and sends no credentials, or not all of them.",
)
USERS_UNREADABLE = _login(
    "cluster {cluster}: no client can log in: {problem}",
    "The users file could be read at start, and cannot any more. Correct it, and let kproxy read its configuration again.",
)
JOSERFC_MISSING = _login(
    "OAUTHBEARER needs a package that is not installed: {command}",
    "Install the package in the message.",
)
RE2_MISSING = _login(
    "rules with a pattern in client-tls-principal-rules need a package that is not installed: {command}",
    "Install the package in the message. DEFAULT needs none.",
)
PATTERN_UNUSABLE = _login(
    "kproxy cannot use the pattern {pattern} of client-tls-principal-rules: {problem}",
    "kproxy matches patterns with RE2, whose time does not explode. It knows most of Java's patterns, but no back "
    "references, no look-around and no possessive quantifiers.",
)
