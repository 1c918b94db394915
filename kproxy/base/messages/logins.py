"""Messages about kproxy's own logins."""

from __future__ import annotations

from functools import partial

from kproxy.base.faults import Fault
from kproxy.base.messages.message import Message, alike

_login = partial(Message, reason="sasl")
_logins = partial(alike, reason="sasl")

LOGIN_REFUSED, PASSWORD_REFUSED = _logins(
    "The broker's own words are in quotes; its log may say more. kproxy tries the same credentials again after 5 s, "
    "10 s and so on, and changed credentials immediately.",
    "the broker refused the login{quote}; {advice}",
    "check sasl-username and the password",
    fault=Fault.CREDENTIALS_REFUSED,
)
TOKEN_REFUSED = _login(
    "check the token: its issuer, audience, scope and expiry",
    "The broker's log has the reason.",
    fault=Fault.CREDENTIALS_REFUSED,
)
MECHANISM_NOT_ENABLED = _login(
    "the broker has not enabled {name}: set sasl to one of {names}",
    "Use one of the mechanisms in the message.",
    fault=Fault.SASL_MECHANISM,
)
NO_SASL_LISTENER = _login(
    "the broker's listener does not support SASL: remove sasl, or use a SASL listener",
    "The address is a PLAINTEXT or SSL listener.",
    fault=Fault.LOGIN_NOT_OFFERED,
)
CLOSED_AT_LOGIN, CLOSED_AT_FIRST_REQUEST = _logins(
    "Check the address and the port.",
    "the broker closed the connection after {step}",
    "the broker closed the connection after {step}: its listener may expect TLS (SSL, SASL_SSL): use --tls; or the server is not a Kafka broker",
    fault=Fault.CLOSED,
)
LOGIN_TIMEOUT = _login(
    "no answer to {step} within {seconds:g} s",
    "The server accepts the connection and sends nothing.",
)
BROKER_UNPROVEN = _login(
    "{problem}; the server is not the broker of this user, or the connection is intercepted",
    "The server could not prove that it knows the password. Do not send it another password before you know the cause.",
)
TOO_MANY_ITERATIONS = _login(
    "the broker demands {demanded} iterations of {name}, more than the {max_iterations} that kproxy computes; Kafka allows 16384: set the user's password again",
    "So many iterations would keep a core busy for seconds at each login. Kafka stores no credentials with more than "
    "16384: set the user's password again.",
)
TOKEN_TIMEOUT = _login(
    "{mechanism} had no token within {seconds:g} s: the KDC, or AWS, does not answer",
    "The KDC in krb5.conf, or AWS's metadata service, does not answer from here.",
    fault=Fault.CREDENTIALS_UNREADABLE,
)
SECRET_READ_TIMEOUT, SECRET_COMMAND_TIMEOUT = _logins(
    "Check the file or the command for the password or token.",
    "{path} was not read within {seconds:g} s: is it a pipe, or on a network file system?",
    "the command '{name}' took more than {seconds:g} s",
    fault=Fault.CREDENTIALS_UNREADABLE,
)
SECRET_UNREADABLE, SECRET_COMMAND_FAILED = _logins(
    "Check the file or the command for the password or token.",
    "{path} cannot be read: {error}",
    "the command '{name}' ended with code {code}; run it by hand to see why",
    fault=Fault.CREDENTIALS_UNREADABLE,
)
TOKEN_ENDPOINT_FAILS, TOKEN_ENDPOINT_REFUSES = _logins(
    "Check the settings in the message.",
    "the token endpoint {url} answers {code}{word}",
    "the token endpoint {url} answers {code}{word}; check the client id and secret, oauth-scope, and the URL",
    fault=Fault.CREDENTIALS_UNREADABLE,
)
TOKEN_ENDPOINT_UNTRUSTED = _login(
    "the token endpoint {url} is not trusted: {error}; set oauth-ca",
    "The certificate of the OIDC server is from a CA of your own.",
    fault=Fault.CREDENTIALS_UNREADABLE,
)
KERBEROS_FAILED, KERBEROS_REFUSED = _logins(
    'The middle of the message is from the Kerberos library. "Server … not found" means that no principal has the '
    "broker's advertised host (or, for a bootstrap server, the host in `bootstrap-servers`).",
    "Kerberos gives no login to {service}: {error}; {advice}",
    "check the principal, the keytab or ticket (klist), and the clocks",
    fault=Fault.KERBEROS,
)
NO_AWS_CREDENTIALS, NO_AWS_REGION = _logins(
    "Configure the credentials or the region for the AWS SDK.",
    "the AWS SDK finds no credentials: set aws-profile, AWS_PROFILE or AWS_ACCESS_KEY_ID",
    "neither {host} nor the AWS configuration names the AWS region: set AWS_DEFAULT_REGION",
    fault=Fault.CREDENTIALS_UNREADABLE,
)
SESSION_LIFETIME_TOO_SHORT = _login(
    "{address}: SASL: the broker gives logins a lifetime of {milliseconds} ms; kproxy {does}: see connections.max.reauth.ms",
    "The broker's `connections.max.reauth.ms` is wrong, or the token ends at once. Kafka's default is no end.",
)
CLOSED_DURING_LOGIN = _login(
    "SASL: the broker closed the connection while kproxy was logging in again",
    "The broker went down, or a device in the network ended the connection. The client connects again.",
)
GSSAPI_PACKAGE_MISSING, AWS_PACKAGE_MISSING = _logins(
    "Install the package in the message.",
    "GSSAPI needs a package that is not installed: {command}",
    "AWS_MSK_IAM needs a package that is not installed: {command}",
)
HOST_BOUND_LOGIN = Message(
    "a client logs in with {mechanism}, which includes the host that the client connects to; a broker refuses a local address. Let kproxy log in instead: --sasl {mechanism}, and in the client security.protocol=PLAINTEXT",
    "The client itself logs in with GSSAPI or AWS_MSK_IAM. Use `--sasl`: kproxy then logs in with the right host.",
)
