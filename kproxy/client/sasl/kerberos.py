"""GSSAPI: Kerberos 5, through the system's library (RFC 4752). The service's name is that of the *advertised* host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kproxy.base.errors import UpstreamError
from kproxy.base.messages.logins import GSSAPI_PACKAGE_MISSING, KERBEROS_FAILED, KERBEROS_REFUSED
from kproxy.base.packages import install_command
from kproxy.client.sasl.mechanism import LoginRefused, unproven_broker

# Kafka supports no security layer but TLS: kproxy chooses "none" among those that the broker offers (RFC 4752 §3.1).
_NO_LAYER = 1


def load_gssapi() -> Any:
    """Import the package for the system's Kerberos. Raises UpstreamError."""
    try:
        import gssapi
    except ImportError:
        raise UpstreamError(*GSSAPI_PACKAGE_MISSING.with_reason(command=install_command("gssapi"))) from None
    return gssapi


class Kerberos:
    """One login to `service/host`, with the tickets that kinit fetched, or as `principal` from a keytab."""

    name = "GSSAPI"
    advice: str = KERBEROS_REFUSED()
    secrets: tuple[str, ...] = ()

    def __init__(self, service: str, host: str, principal: str | None, keytab: Path | None) -> None:
        self._gssapi = load_gssapi()
        self._service = f"{service}@{host}"
        self._principal = principal
        self._keytab = keytab
        self._context: Any = None
        self.finished = False

    def step(self, challenge: bytes) -> bytes | None:
        """Return tokens until both sides have authenticated, then the choice of no security layer.

        The first step asks the KDC.
        """
        try:
            if self._context is None:
                self._context = self._new_context()
            elif self._context.complete:
                return self._choose_layer(challenge)
            # Where the broker has the last word, what follows is its offer of layers: an empty token asks for it.
            return self._context.step(challenge or None) or b""
        except self._gssapi.exceptions.GSSError as error:
            problem = ": ".join(
                error.get_all_statuses(error.min_code, False) or error.get_all_statuses(error.maj_code, True)
            )
            text = KERBEROS_FAILED(service=self._service, error=problem, advice=self.advice)
            # A KDC may lock an account whose key is wrong; without a keytab, kproxy does not ask the KDC for a ticket.
            raise (LoginRefused(text) if self._keytab else UpstreamError("sasl", text)) from None

    def _new_context(self) -> Any:
        api = self._gssapi
        principal = api.Name(self._principal, api.NameType.user) if self._principal else None
        # A cache of its own: other tickets must stay unchanged.
        cache = f"MEMORY:kproxy:{self._keytab}:{self._principal}"
        store = {"client_keytab": str(self._keytab), "ccache": cache} if self._keytab else None
        credentials = api.Credentials(name=principal, usage="initiate", store=store)
        target = api.Name(self._service, api.NameType.hostbased_service)
        return api.SecurityContext(name=target, creds=credentials, mech=api.MechType.kerberos, usage="initiate")

    def _choose_layer(self, challenge: bytes) -> bytes:
        offer = self._context.unwrap(challenge).message
        if len(offer) != 4 or not offer[0] & _NO_LAYER:
            raise unproven_broker("the broker asks for a Kerberos security layer, which Kafka does not have")
        self.finished = True
        # No layer, no size of its messages, and no other user to act for.
        return bytes(self._context.wrap(bytes([_NO_LAYER, 0, 0, 0]), False).message)
