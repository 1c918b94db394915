"""The body of POST /switch/logins: a driver asks before a switch whether users can log in to an upstream."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable, Sequence

from kproxy.proxy.admin.handlers import SwitchCommandResult
from kproxy.proxy.cluster.gateway import Gateway
from kproxy.proxy.cluster.usercheck import check_user
from kproxy.proxy.switching.parts import split_unit
from kproxy.proxy.switching.userchecks import LoginOutcome, UserCheck, UserCheckRequest, parse_request

log = logging.getLogger(__name__)

# Users that kproxy checks at a time: each may run a command, and costs a broker a login.
_AT_ONCE = 8
# Seconds for one user, and for all users of a request.
_USER_SECONDS, _REQUEST_SECONDS = 25.0, 50.0


class UserChecks:
    """The checks of users, one request at a time. `gateways` returns those of all clusters."""

    def __init__(self, gateways: Callable[[], Sequence[Gateway]]) -> None:
        self._gateways = gateways
        self._is_busy = False

    async def handle_request(self, body: object) -> SwitchCommandResult:
        """Check the users of a request; return the result and the response body."""
        try:
            request = parse_request(body)
            gateway = self._gateway(request)
        except ValueError as error:
            return SwitchCommandResult("nonsense", _json(str(error), {}))
        if self._is_busy:
            return SwitchCommandResult("refused", _json("another check of users is running; try again later", {}))
        self._is_busy = True
        try:
            checks = await self._check_all(gateway, request)
        finally:
            self._is_busy = False
        counts = Counter(check.outcome for check in checks.values())
        shown = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
        log.info("cluster %s: logins of users at %s were tried: %s", request.cluster, request.upstream, shown)
        return SwitchCommandResult("done", _json("", checks))

    def _gateway(self, request: UserCheckRequest) -> Gateway:
        name = split_unit(request.cluster)[0]
        gateway = next((gateway for gateway in self._gateways() if gateway.config.name == name), None)
        if gateway is None or request.upstream not in gateway.upstreams:
            names = ", ".join(f"{each.config.name} ({', '.join(each.upstreams)})" for each in self._gateways())
            raise ValueError(f"there is no such cluster with this upstream; those of this kproxy: {names}")
        return gateway

    async def _check_all(self, gateway: Gateway, request: UserCheckRequest) -> dict[str, UserCheck]:
        upstream, turns = gateway.upstreams[request.upstream], asyncio.Semaphore(_AT_ONCE)
        end = asyncio.get_running_loop().time() + _REQUEST_SECONDS

        async def check(user: str) -> UserCheck:
            async with turns:
                left = end - asyncio.get_running_loop().time()
                if left <= 0:
                    return UserCheck(LoginOutcome.FAILED, problem="not tried: others took too long")
                return await check_user(upstream, user, request.users[user], min(left, _USER_SECONDS))

        async with asyncio.TaskGroup() as tasks:
            running = {user: tasks.create_task(check(user)) for user in request.users}
        return {user: task.result() for user, task in running.items()}


def _json(problem: str, checks: dict[str, UserCheck]) -> bytes:
    return json.dumps({"problem": problem, "users": {user: check.to_json() for user, check in checks.items()}}).encode()
