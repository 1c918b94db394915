"""Loading certificates and keys into an ssl.SSLContext, from the files of Kafka users: PEM, DER, PKCS #12, JKS.

OpenSSL reads a private key only from a file. A key from a key store is given to it in memory where the system has such
files (Linux), else in a file that only this user may read and that is deleted at once; encrypted in both cases, with a
random password.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kproxy.base import regularfile
from kproxy.base.messages.files import (
    FILE_PASSWORD_MISSING,
    JCEKS_STORE,
    KEY_ENCRYPTED,
    KEY_OF_OTHER_CERTIFICATE,
    NO_CERTIFICATE,
    PASSWORD_MISSING,
    PASSWORD_WRONG,
)
from kproxy.net.tls import jks
from kproxy.net.tls.jks import WrongPassword

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

_JCEKS = b"\xce\xce\xce\xce"
# A bundle of all public CAs has some hundred KiB.
_MOST = 4 * 1024 * 1024
_CONVERT = "convert it with keytool -importkeystore -deststoretype PKCS12"


def load_trust(context: ssl.SSLContext, path: Path, password: str | None) -> None:
    """Trust the certificates of the file.

    Raises ValueError with one line for the user, WrongPassword if it is about the password.
    """
    data = _read(path)
    try:
        if b"-----BEGIN " in data:
            with _file_with_data_read(path, data) as file:
                context.load_verify_locations(cafile=file)
        elif data.startswith(jks.MAGIC):
            store = jks.read_key_store(data, password)
            _trust(context, store.certificates + [chain[0] for _, chain in store.keys if chain])
        elif _is_pkcs12(data):
            _, certificates = _load_pkcs12(data, password)
            _trust(context, certificates)
        else:
            _refuse_jceks(data)
            context.load_verify_locations(cadata=data)
    except ssl.SSLError:
        raise ValueError(NO_CERTIFICATE()) from None


def load_identity(context: ssl.SSLContext, certificate: Path, key: Path | None, password: str | None) -> None:
    """Load the certificate and its chain with the private key; without `key`, the key is in the same file.

    Raises ValueError with one line for the user, WrongPassword if it is about the password.
    """
    data = _read(certificate)
    if b"-----BEGIN " in data:
        with _file_with_data_read(certificate, data) as file:
            _load_pem(context, file, key or certificate, password)
        return
    if key is not None:
        raise ValueError("is not PEM, so it must contain the key as well: remove the file of the key")
    if data.startswith(jks.MAGIC):
        private, chain = _load_jks(data, password)
    elif _is_pkcs12(data):
        private, chain = _load_pkcs12(data, password)
    else:
        _refuse_jceks(data)
        raise ValueError("has no key and certificate; allowed: PEM, PKCS #12, JKS")
    if private is None or not chain:
        raise ValueError("has no private key; allowed: a key store with one key and its certificate")
    one_time_password = secrets.token_hex(16)
    with _temporary_file(
        _pem(private, one_time_password) + "".join(map(ssl.DER_cert_to_PEM_cert, chain)).encode()
    ) as file:
        _load_chain(context, file, file, one_time_password, "")


def _load_pem(context: ssl.SSLContext, certificate: Path, key: Path, password: str | None) -> None:
    try:
        text = _read(key)
    except ValueError as error:
        raise ValueError(f"{key} {error}") from None
    if b"PRIVATE KEY-----" not in text:
        raise ValueError(f"{key} has no private key")
    with _file_with_data_read(key, text) as file:
        _load_chain(context, certificate, file, password, key, is_encrypted=b"ENCRYPTED" in text)


def _load_chain(
    context: ssl.SSLContext,
    certificate: Path,
    key: Path,
    password: str | None,
    shown: Path | str,
    *,
    is_encrypted: bool = False,
) -> None:
    try:
        # Never None: OpenSSL would ask the terminal for a password.
        context.load_cert_chain(certificate, key, password or "")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ValueError(KEY_OF_OTHER_CERTIFICATE(file=shown)) from None
        if is_encrypted:
            raise WrongPassword(KEY_ENCRYPTED(file=shown, password="wrong" if password else "not given")) from None
        if error.reason in ("EE_KEY_TOO_SMALL", "CA_MD_TOO_WEAK", "CA_KEY_TOO_SMALL"):
            raise ValueError("its key or signature is too weak for this system's OpenSSL") from None
        raise ValueError("has no certificate, or a damaged one; allowed: PEM, PKCS #12, JKS") from None


def _read(path: Path) -> bytes:
    """Read a file. Raises ValueError. It blocks the event loop: changed files are read again at run time."""
    try:
        return regularfile.read(path, _MOST)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None


def _is_pkcs12(data: bytes) -> bool:
    """Return whether the data is PKCS #12: a sequence that begins with the version, 3 (RFC 7292 §4).

    A certificate begins with another sequence.
    """
    if data[:1] != b"\x30" or len(data) < 2:
        return False
    start = 2 + (data[1] & 0x7F if data[1] & 0x80 else 0)
    return data[start : start + 3] == b"\x02\x01\x03"


def _refuse_jceks(data: bytes) -> None:
    if data.startswith(_JCEKS):
        raise ValueError(JCEKS_STORE(advice=_CONVERT))


def _trust(context: ssl.SSLContext, certificates: list[bytes]) -> None:
    if not certificates:
        raise ValueError("has no certificate")
    context.load_verify_locations(cadata=b"".join(certificates))


def _load_pkcs12(data: bytes, password: str | None) -> tuple[PrivateKeyTypes | None, list[bytes]]:
    """Return the key, if there is one, and the certificates (DER): the key's own and its chain first."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

    try:
        key, own, others = pkcs12.load_key_and_certificates(data, None if password is None else password.encode())
    except UnsupportedAlgorithm as error:
        raise ValueError(f"is encrypted in a way that is not supported ({error}): {_CONVERT}") from None
    except ValueError:
        message = FILE_PASSWORD_MISSING if password is None else PASSWORD_WRONG
        raise WrongPassword(message()) from None
    ordered = [own] if own is not None else []
    while ordered and (above := next((c for c in others if c.subject == ordered[-1].issuer), None)) is not None:
        ordered.append(above)
        others.remove(above)
    return key, [certificate.public_bytes(Encoding.DER) for certificate in (*ordered, *others)]


def _load_jks(data: bytes, password: str | None) -> tuple[PrivateKeyTypes | None, list[bytes]]:
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    if password is None:
        raise WrongPassword(PASSWORD_MISSING())
    store = jks.read_key_store(data, password)
    if len(store.keys) > 1:
        raise ValueError(f"has {len(store.keys)} keys, and kproxy cannot know which to use: export one of them")
    if not store.keys:
        return None, []
    encrypted_key, chain = store.keys[0]
    return load_der_private_key(jks.decrypt_key(encrypted_key, password), None), chain


def _pem(key: PrivateKeyTypes, password: str) -> bytes:
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode()))


@contextlib.contextmanager
def _file_with_data_read(path: Path, data: bytes) -> Iterator[Path]:
    """Yield a file with the data that was read from `path`, for OpenSSL, which reads files itself.

    So a replacement of `path` meanwhile has no effect. Where the system has no files in memory, it is `path` itself: a
    key is not written to a disk for that.
    """
    if hasattr(os, "memfd_create"):
        with _temporary_file(data) as file:
            yield file
    else:
        yield path


@contextlib.contextmanager
def _temporary_file(data: bytes) -> Iterator[Path]:
    """Yield a file with the data, which exists as long as the context is open."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("kproxy")
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            yield Path(f"/proc/self/fd/{fd}")
        return
    fd, name = tempfile.mkstemp(prefix="kproxy-")  # readable for this user only
    try:
        with open(fd, "wb") as file:
            file.write(data)
        yield Path(name)
    finally:
        os.unlink(name)
