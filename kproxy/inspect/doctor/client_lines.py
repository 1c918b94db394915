"""The settings of a client that fix its TLS or login: those of the Java client, or librdkafka's. Pure.

Values that only the user knows are in capitals: USER, PASSWORD. The names are those of Kafka's documentation
("Security", "Configuring Kafka Clients") and of librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from kproxy.inspect.doctor.evidence import Examination

_MODULES = "org.apache.kafka.common.security."
_PASSWORD = 'username="USER" password="PASSWORD"'
# By mechanism: the login module, and its options.
_JAAS = {
    "PLAIN": (f"{_MODULES}plain.PlainLoginModule", _PASSWORD),
    "SCRAM-SHA-256": (f"{_MODULES}scram.ScramLoginModule", _PASSWORD),
    "SCRAM-SHA-512": (f"{_MODULES}scram.ScramLoginModule", _PASSWORD),
    "OAUTHBEARER": (f"{_MODULES}oauthbearer.OAuthBearerLoginModule", 'clientId="USER" clientSecret="PASSWORD"'),
    "GSSAPI": (
        "com.sun.security.auth.module.Krb5LoginModule",
        'useKeyTab=true storeKey=true keyTab="FILE.keytab" principal="USER@REALM"',
    ),
    "AWS_MSK_IAM": ("software.amazon.msk.auth.iam.IAMLoginModule", ""),
}
_MORE = {
    "OAUTHBEARER": (
        "sasl.oauthbearer.token.endpoint.url=https://HOST/token",
        "sasl.login.callback.handler.class=org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
    ),
    "GSSAPI": ("sasl.kerberos.service.name=kafka",),
    "AWS_MSK_IAM": ("sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler",),
}
_LIBRDKAFKA = {
    "OAUTHBEARER": (
        "sasl.oauthbearer.method=oidc",
        "sasl.oauthbearer.token.endpoint.url=https://HOST/token",
        "sasl.oauthbearer.client.id=USER",
        "sasl.oauthbearer.client.secret=PASSWORD",
    ),
    "GSSAPI": (
        "sasl.kerberos.service.name=kafka",
        "sasl.kerberos.keytab=FILE.keytab",
        "sasl.kerberos.principal=USER@REALM",
    ),
}
_PREFERRED = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM")


def protocol(*, tls: bool, login: bool) -> str:
    """Return the line with the protocol of a listener."""
    name = {(False, False): "PLAINTEXT", (True, False): "SSL", (False, True): "SASL_PLAINTEXT"}.get((tls, login))
    return f"security.protocol={name or 'SASL_SSL'}"


def trust(examination: Examination, file: str) -> tuple[str, ...]:
    """Return the lines for the CA in a PEM file (KIP-651 for Java, from Kafka 2.7 on)."""
    if _is_librdkafka(examination):
        return (f"ssl.ca.location={file}",)
    return ("ssl.truststore.type=PEM", f"ssl.truststore.location={file}")


def own_certificate(examination: Examination) -> tuple[str, ...]:
    """Return the lines for the client's certificate."""
    if _is_librdkafka(examination):
        return ("ssl.keystore.location=client.p12", "ssl.keystore.password=PASSWORD")
    return ("ssl.keystore.type=PKCS12", "ssl.keystore.location=client.p12", "ssl.keystore.password=PASSWORD")


def login(examination: Examination, offered: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines for a login with one of the mechanisms that the listener offers."""
    yield protocol(tls=examination.tls, login=True)
    mechanism = next((name for name in _PREFERRED if name in offered), offered[0] if offered else "MECHANISM")
    if mechanism not in _JAAS:
        yield f"sasl.mechanism={mechanism}"
        yield "# and what this mechanism needs: the cluster's administrator knows it"
        return
    if len(offered) > 1:
        yield f"# or another of those that the listener offers: {', '.join(offered)}"
    yield f"sasl.mechanism={mechanism}"
    if _is_librdkafka(examination):
        yield from _LIBRDKAFKA.get(mechanism, ("sasl.username=USER", "sasl.password=PASSWORD"))
        return
    module, options = _JAAS[mechanism]
    yield f"sasl.jaas.config={' '.join(filter(None, (module, 'required', options)))};"
    yield from _MORE.get(mechanism, ())


def _is_librdkafka(examination: Examination) -> bool:
    client = examination.intent.client
    return client is not None and client.name == "librdkafka"
