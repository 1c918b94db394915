"""kproxy's messages about certificates, keys and stores."""

from __future__ import annotations

from kproxy.advice.remedies.own.section import OwnMessage, Section
from kproxy.base.faults import Fault

SECTION = Section(
    title="Certificates and keys",
    head=(
        "message",
        "what to do",
    ),
    before=(
        "At start, a mistake in a file stops kproxy. Later, kproxy logs the mistake, followed by\n"
        "`new connections use the previous files`. If the changed files are valid, it logs\n"
        "`certificate files have changed; new connections use them`."
    ),
    rows=(
        OwnMessage(
            "`has no certificate; allowed: PEM, DER, PKCS #12, JKS`",
            "This is the wrong file, perhaps a key.",
            fault=Fault.CREDENTIALS_UNREADABLE,
        ),
        OwnMessage(
            "`the password is wrong, or the file is damaged`, `the password is not given`, `is encrypted, and "
            "its password is …`",
            "The message ends with the setting for the password: `KPROXY_TLS_CA_PASSWORD` for a trust store, "
            "`KPROXY_TLS_KEY_PASSWORD` for a key or a key store, `KPROXY_CLIENT_TLS_KEY_PASSWORD` for the key of "
            "kproxy's own certificate. In a client.properties: `ssl.truststore.password` and "
            "`ssl.keystore.password`.",
            fault=Fault.CREDENTIALS_UNREADABLE,
        ),
        OwnMessage(
            "`the key of … does not belong to the certificate`",
            "The two files are from different times, or for different names.",
            fault=Fault.CREDENTIALS_UNREADABLE,
        ),
        OwnMessage(
            "`is a JCEKS file: …`",
            "Convert it: `keytool -importkeystore -srckeystore FILE -destkeystore FILE.p12 -deststoretype PKCS12`",
            fault=Fault.CREDENTIALS_UNREADABLE,
        ),
    ),
)
