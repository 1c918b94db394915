"""Messages about certificates, keys and stores."""

from __future__ import annotations

from functools import partial

from kproxy.base.faults import Fault
from kproxy.base.messages.message import Message, alike

_file = partial(Message, fault=Fault.CREDENTIALS_UNREADABLE)
_files = partial(alike, fault=Fault.CREDENTIALS_UNREADABLE)

NO_CERTIFICATE = _file(
    "has no certificate; allowed: PEM, DER, PKCS #12, JKS",
    "This is the wrong file, perhaps a key.",
)
PASSWORD_WRONG, PASSWORD_MISSING, FILE_PASSWORD_MISSING, KEY_ENCRYPTED = _files(
    "The message ends with the setting for the password: `KPROXY_TLS_CA_PASSWORD` for a trust store, "
    "`KPROXY_TLS_KEY_PASSWORD` for a key or a key store, `KPROXY_CLIENT_TLS_KEY_PASSWORD` for the key of kproxy's "
    "own certificate. In a client.properties: `ssl.truststore.password` and `ssl.keystore.password`.",
    "the password is wrong, or the file is damaged",
    "the password is not given",
    "the password is not given, or the file is damaged",
    "{file} is encrypted, and its password is {password}",
)
KEY_OF_OTHER_CERTIFICATE = _file(
    "the key of {file} does not belong to the certificate",
    "The two files are from different times, or for different names.",
)
JCEKS_STORE = _file(
    "is a JCEKS file: {advice}",
    "Convert it: `keytool -importkeystore -srckeystore FILE -destkeystore FILE.p12 -deststoretype PKCS12`",
)
