"""Messages of clients that connect through kproxy."""

from __future__ import annotations

from kproxy.advice.remedies.own.section import OwnMessage, Section

SECTION = Section(
    title="With kproxy: messages of clients",
    own=False,
    head=(
        "message",
        "meaning, and what to do",
    ),
    rows=(
        OwnMessage(
            "`Failed to resolve …` or `UnknownHostException` with the name of a *broker*",
            "The client does not connect through kproxy. Check its bootstrap servers. Some frameworks set them "
            "in more than one place.",
        ),
        OwnMessage(
            "the same with the name in `--advertise`",
            "The client cannot resolve the name that kproxy advertises. Choose a name or address that the client "
            "can reach.",
        ),
        OwnMessage(
            "`Connection refused` to `127.0.0.1:19094` or a similar port, in a container",
            "Inside a container, 127.0.0.1 is the container itself. Set `--listen` and `--advertise`: "
            "[deploy/](../deploy/README.md).",
        ),
        OwnMessage(
            "`Connection refused` or a timeout to `HOST:19094` or a similar port, while `HOST:19092` works",
            "The node ports are not published, or a firewall blocks them. Open all ports of `--node-ports`.",
        ),
        OwnMessage(
            "`Disconnected while requesting ApiVersion: might be caused by incorrect security.protocol configuration`",
            "kproxy closed the connection. Either it could not reach that broker, or the client or the broker "
            "uses TLS. kproxy's log has a line for it.",
        ),
        OwnMessage(
            "`Bootstrap broker … disconnected`, `Connection to node 1 (…) could not be established`",
            "The same, in Java.",
        ),
        OwnMessage(
            "SASL `Authentication failed` with GSSAPI or AWS MSK IAM",
            "Both bind the login to the broker's host name, but the client knows kproxy's host name. Let kproxy "
            "log in: set [`--sasl`](configuration.md#logging-in), and `security.protocol=PLAINTEXT` in the "
            "client.",
        ),
        OwnMessage(
            "`Unexpected handshake request with client mechanism …`, `Request is not valid given the current "
            "SASL state`",
            "kproxy already logs in (`--sasl`), and the client logs in again. Remove the credentials from the "
            "client: `security.protocol=PLAINTEXT`.",
        ),
    ),
)
