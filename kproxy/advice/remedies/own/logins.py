"""kproxy's messages about its own logins."""

from __future__ import annotations

from kproxy.advice.remedies.own.section import OwnMessage, Section
from kproxy.base.faults import Fault

SECTION = Section(
    title="Logging in",
    head=(
        "message",
        "meaning, and what to do",
    ),
    before=("These messages appear with `--sasl`. All of them have the reason `sasl`, and `SASL:` after the address."),
    after=(
        "kproxy warns in advance with this line:\n"
        "`a client logs in with …, which names the host that the client has dialled: a broker refuses that for a local address.`\n"
        "The client itself logs in with GSSAPI or AWS_MSK_IAM. Use `--sasl`: kproxy then logs in with the right host."
    ),
    rows=(
        OwnMessage(
            "`the broker refused the login …`, `check sasl-username and the password`",
            "The broker's own words are in quotes; its log may say more. kproxy tries the same credentials again "
            "after 5 s, 10 s and so on, and changed credentials immediately.",
            fault=Fault.CREDENTIALS_REFUSED,
        ),
        OwnMessage(
            "`the broker refused the login …`, `check the token: its issuer, audience, scope and expiry`",
            "The broker's log has the reason.",
            fault=Fault.CREDENTIALS_REFUSED,
        ),
        OwnMessage(
            "`the broker has not enabled …: set sasl to one of …`",
            "Use one of the mechanisms in the message.",
            fault=Fault.SASL_MECHANISM,
        ),
        OwnMessage(
            "`the broker's listener does not support SASL: remove sasl, or use a SASL listener`",
            "The address is a PLAINTEXT or SSL listener.",
            fault=Fault.LOGIN_NOT_OFFERED,
        ),
        OwnMessage(
            "`the broker closed the connection after …`, `its listener may expect TLS (SSL, SASL_SSL): use "
            "--tls; or the server is not a Kafka broker`",
            "Check the address and the port.",
            fault=Fault.CLOSED,
        ),
        OwnMessage(
            "`no answer to … within … s`",
            "The server accepts the connection and sends nothing.",
        ),
        OwnMessage(
            "`the broker failed …`, `the server is not the broker of this user, or the connection is intercepted`",
            "The server could not prove that it knows the password. Do not send it another password before you "
            "know the cause.",
        ),
        OwnMessage(
            "`the broker demands … iterations of …, more than the … that kproxy computes`",
            "So many iterations would keep a core busy for seconds at each login. Kafka stores no credentials "
            "with more than 16384: set the user's password again.",
        ),
        OwnMessage(
            "`… had no token within … s: the KDC, or AWS, does not answer`",
            "The KDC in krb5.conf, or AWS's metadata service, does not answer from here.",
            fault=Fault.CREDENTIALS_UNREADABLE,
        ),
        OwnMessage(
            "`… was not read within … s: is it a pipe, or on a network file system?`, `the command '…' took more "
            "than … s`",
            "Check the file or the command for the password or token.",
            fault=Fault.CREDENTIALS_UNREADABLE,
        ),
        OwnMessage(
            "`… cannot be read: …`, `the command '…' ended with code …; run it by hand to see why`",
            "Check the file or the command for the password or token.",
            fault=Fault.CREDENTIALS_UNREADABLE,
        ),
        OwnMessage(
            "`the token endpoint … answers …`, `check the client id and secret, oauth-scope, and the URL`",
            "Check the settings in the message.",
            fault=Fault.CREDENTIALS_UNREADABLE,
        ),
        OwnMessage(
            "`the token endpoint … is not trusted: …; set oauth-ca`",
            "The certificate of the OIDC server is from a CA of your own.",
            fault=Fault.CREDENTIALS_UNREADABLE,
        ),
        OwnMessage(
            "`Kerberos gives no login to …: …`, `check the principal, the keytab or ticket (klist), and the clocks`",
            'The middle of the message is from the Kerberos library. "Server … not found" means that no '
            "principal has the broker's advertised host (or, for a bootstrap server, the host in "
            "`bootstrap-servers`).",
            fault=Fault.KERBEROS,
        ),
        OwnMessage(
            "`the AWS SDK finds no credentials: …`, `neither … nor the AWS configuration names the AWS region: …`",
            "Configure the credentials or the region for the AWS SDK.",
            fault=Fault.CREDENTIALS_UNREADABLE,
        ),
        OwnMessage(
            "`the broker gives logins a lifetime of … ms`",
            "The broker's `connections.max.reauth.ms` is wrong, or the token ends at once. Kafka's default is no end.",
        ),
        OwnMessage(
            "`SASL: the broker closed the connection while kproxy was logging in again`",
            "The broker went down, or a device in the network ended the connection. The client connects again.",
        ),
        OwnMessage(
            "`GSSAPI needs a package that is not installed: …`, `AWS_MSK_IAM needs a package that is not installed: …`",
            "Install the package in the message.",
        ),
    ),
)
