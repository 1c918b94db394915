"""A certificate authority for one cluster on this machine, which ends with the cluster."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Collection
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

# The clusters are for experiments; their certificates are not renewed.
_VALID = datetime.timedelta(days=30)
# Clocks of containers may be a little behind.
_HOUR = datetime.timedelta(hours=1)
# The key usage that a CA must have (RFC 5280 §4.2.1.3); Python 3.13 and later require it.
_SIGNS = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


def write_certificates(directory: Path, names: Collection[str]) -> tuple[Path, Path]:
    """Write a CA's certificate, and a key with a certificate for these names and addresses; return both paths.

    The files are PEM; only this user can read the key.
    """
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = _name("kproxy devcluster CA")
    authority = _certificate(issuer, issuer, ca_key.public_key(), ca_key, x509.BasicConstraints(True, 0), _SIGNS)
    subjects = x509.SubjectAlternativeName([_general(name) for name in sorted(set(names))])
    leaf = _certificate(_name("kproxy devcluster"), issuer, key.public_key(), ca_key, subjects)
    ca, both = directory / "ca.pem", directory / "broker.pem"
    ca.write_bytes(authority.public_bytes(Encoding.PEM))
    both.touch(mode=0o600)
    hidden = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    both.write_bytes(hidden + leaf.public_bytes(Encoding.PEM) + authority.public_bytes(Encoding.PEM))
    return ca, both


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    signer: ec.EllipticCurvePrivateKey,
    *extensions: x509.ExtensionType,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number(), now - _HOUR, now + _VALID)
    for extension in extensions:
        builder = builder.add_extension(extension, critical=not isinstance(extension, x509.SubjectAlternativeName))
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    return builder.add_extension(identifier, critical=False).sign(signer, hashes.SHA256())


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
