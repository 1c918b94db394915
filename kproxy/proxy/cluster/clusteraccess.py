"""The access rules of one cluster: they judge its sessions, and what they have refused is logged, counted and shown."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import time
from typing import TYPE_CHECKING

from kproxy.base.address import Address
from kproxy.base.messages.sessions import REQUEST_REFUSED
from kproxy.base.repeats import about
from kproxy.config import ClusterConfig
from kproxy.config.access import FAMILIES
from kproxy.proxy.metrics import Metrics
from kproxy.proxy.relay.session import Session
from kproxy.proxy.status.model import AccessStatus, RefusalStatus

if TYPE_CHECKING:
    from kproxy.proxy.access.authorizer import SessionAuthorizer
    from kproxy.proxy.access.sessionrules import RefusedRequest, SessionRules

log = logging.getLogger(__name__)

_MOST_SHOWN = 50
# While a client has not taken its answers, its other requests wait for this long, in seconds.
_UNTIL_TAKEN = 0.05


class ClusterAccess:
    """The access rules of one cluster. `wake` makes the event loop see what the data plane has scheduled."""

    def __init__(self, config: ClusterConfig, metrics: Metrics, wake: Callable[[], None]) -> None:
        self._name = config.name
        self._metrics = metrics
        self._wake = wake
        self._total = 0
        self._refusals: OrderedDict[tuple[str, ...], RefusalStatus] = OrderedDict()  # the latest ones, the oldest first
        self.configure(config)

    def configure(self, config: ClusterConfig) -> None:
        """Judge the sessions that come from now on by the rules of this configuration."""
        self._rules = config.access
        self._has_users = has_users = config.clients_log_in
        self._session_rules: SessionRules | None = None  # of clients that have not logged in here
        if has_users or not self._rules.forbids_nothing:
            from kproxy.proxy.access.sessionrules import SessionRules  # few clusters have rules

            self._session_rules = SessionRules(self._rules, has_users=has_users)

    def session_opened(self, session: Session, client: Address) -> SessionAuthorizer | None:
        """Judge the requests of a new session of this client. No byte has passed in it yet.

        Return what judges them, if anything does.
        """
        if self._session_rules is None:
            return None
        from kproxy.proxy.access.authorizer import SessionAuthorizer

        authorizer = SessionAuthorizer(
            self._session_rules, partial(self._refused, session, client), partial(self._judge_rest_later, session)
        )
        session.conversation.authorize(authorizer)
        return authorizer

    def set_user(self, authorizer: SessionAuthorizer, user: str) -> None:
        """Judge the requests of a session from now on by the rules for this user."""
        from kproxy.proxy.access.sessionrules import SessionRules

        authorizer.rules = SessionRules(self._rules, has_users=self._has_users, user=user)

    @property
    def status(self) -> AccessStatus | None:
        """What the rules forbid, and what they have refused; None if there are none."""
        lines = tuple(self._rules.describe())
        return AccessStatus(lines, self._total, tuple(self._refusals.values())) if lines else None

    def _judge_rest_later(self, session: Session) -> None:
        self._wake()
        asyncio.get_running_loop().call_soon(self._judge_rest, session)

    def _judge_rest(self, session: Session) -> None:
        if session.closed:
            return
        if session.client.pending or session.conversation.answers:
            asyncio.get_running_loop().call_later(_UNTIL_TAKEN, self._judge_rest, session)
        else:
            session.release()

    def _refused(self, session: Session, client: Address, refused: RefusedRequest) -> None:
        self._total += 1
        self._metrics.count_refused_request(self._name, refused.api)
        client_id = session.conversation.introduction.client_id
        key = refused.api, refused.family, refused.name, client.host, client_id, refused.user
        before = self._refusals.pop(key, None)
        now = time()
        if before is None:
            shown = RefusalStatus(
                api=refused.api,
                family=refused.family,
                name=refused.name,
                client=client.host,
                client_id=client_id,
                user=refused.user,
                reason=refused.reason,
                error=refused.error,
                times=1,
                last=now,
            )
        else:
            shown = replace(before, times=before.times + 1, last=now, reason=refused.reason, error=refused.error)
        self._refusals[key] = shown
        if len(self._refusals) > _MOST_SHOWN:
            self._refusals.popitem(last=False)
        if before is None or now - before.last > 1.0:  # a client may ask a thousand times a second
            self._log(client, client_id, refused)

    def _log(self, client: Address, client_id: str, refused: RefusedRequest) -> None:
        noun = FAMILIES[refused.family]
        what = f" of {noun} '{refused.name}'" if noun and refused.name else ""
        names = self._rules.allowed_names(refused.family)
        allowed = f"; allowed {noun}s: {', '.join(names)}" if names and noun else ""
        who = ", ".join(name for name in (client_id, refused.user and f"user {refused.user}") if name)
        shown = f"{client.host} ({who})" if who else client.host
        log.warning(
            REQUEST_REFUSED(
                cluster=self._name, api=refused.api, what=what, client=shown, reason=refused.reason, allowed=allowed
            ),
            extra=about(self._name, refused.api, client.host),
        )
