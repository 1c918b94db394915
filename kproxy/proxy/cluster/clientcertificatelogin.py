"""The login of one client by the certificate of its TLS handshake: what takes time of it.

What passes when is in `kproxy.proxy.login.certificate`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kproxy.base.errors import UpstreamError
from kproxy.net.tls.subject import read_subject
from kproxy.net.tls.tlssocket import TlsSocket
from kproxy.proxy.cluster.clientconnection import ClientConnection, close_gracefully
from kproxy.proxy.login.certificate import CertificateAuthenticator
from kproxy.proxy.login.outcomes import ClientLoginFailed
from kproxy.proxy.login.principals import NoPrincipal, PrincipalMapper
from kproxy.proxy.relay.session import Session

if TYPE_CHECKING:
    from kproxy.proxy.cluster.clientlogins import ClientLogins

# In place of a mechanism, in logs and metrics.
_CERTIFICATE = "certificate"


class ClientCertificateLogin:
    """The login of the client of one session."""

    def __init__(
        self, logins: ClientLogins, principals: PrincipalMapper, session: Session, connection: ClientConnection
    ) -> None:
        self._logins, self._principals = logins, principals
        self._session, self._connection = session, connection
        self._authenticator = CertificateAuthenticator(
            self._evaluate, session.conversation.judge_anew, self._end_session
        )
        session.conversation.authenticate(self._authenticator)

    def _evaluate(self) -> None:
        self._connection.client_login = self._logins.run(self._run())

    async def _run(self) -> None:
        try:
            await self._logins.accept(self._connection, self._session, self._user())
        except ClientLoginFailed as error:
            await self._logins.refuse(self._connection, _CERTIFICATE, error)
            self._authenticator.refuse(error)
        except UpstreamError as error:
            if not self._session.closed:
                self._session.ended_by = "upstream"
                self._session.close(error)
            return
        else:
            self._logins.count_success(_CERTIFICATE)
            self._authenticator.accept()
        self._session.release()

    def _user(self) -> str:
        """Return the user of the client's certificate. Raises ClientLoginFailed."""
        sock = self._connection.sock
        certificate = sock.peer_der() if isinstance(sock, TlsSocket) else None
        try:
            if certificate is None:
                raise NoPrincipal("it has shown no certificate")
            return self._principals.user_of(read_subject(certificate))
        except ValueError as error:
            raise ClientLoginFailed(str(error), "refused", str(error)) from None

    def _end_session(self) -> None:
        self._logins.wake()
        asyncio.get_running_loop().call_soon(self._end_now)

    def _end_now(self) -> None:
        if not self._session.closed:
            close_gracefully(self._session)
