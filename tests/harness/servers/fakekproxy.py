"""The part of a kproxy that a switch needs: its page /switch, with the real state machine, and its faults."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kproxy import __version__
from kproxy.migrate.switch.fleet import LOGINS_PATH
from kproxy.proxy.admin.requests import MARK
from kproxy.proxy.switching import asjson
from kproxy.proxy.switching.participant import (
    Command,
    ParticipantState,
    Phase,
    SwitchConditions,
    Transition,
    apply,
    expire,
    restart,
    settle,
)
from kproxy.proxy.switching.userchecks import LoginOutcome, UserCheck, UserCheckRequest, parse_request

TOKEN = "the-token-of-some-tests"


@dataclass
class FakeKproxy:
    """A kproxy without clients.

    `upstreams`: cluster ids by name. `moments`: each phase it was in. `harm` gets each request (None: a GET) and may
    answer it with bytes, or raise; None lets the request pass. `outcomes` of logins, by user; others are OWN. `logins`:
    the names of users elsewhere than at blue. `checked`: the requests to log in for users.
    """

    upstreams: Mapping[str, str]
    active: str = "blue"
    cluster: str = "default"
    version: str = __version__
    state_dir: bool = True
    clock: float = 0.0
    doubts: Sequence[str] = ()
    clients: Sequence[Mapping[str, Any]] = ()
    outcomes: Mapping[str, LoginOutcome] = field(default_factory=dict)
    logins: Mapping[str, str] = field(default_factory=dict)
    checked: list[UserCheckRequest] = field(default_factory=list)
    unanswered: int = 0
    state: ParticipantState = field(init=False)
    moments: list[tuple[str, str]] = field(default_factory=list)
    harm: Callable[[FakeKproxy, Command | None], bytes | None] = lambda _, __: None
    address: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.state = ParticipantState(self.active)

    @property
    def phase(self) -> Phase:
        return self.state.phase

    def facts(self) -> SwitchConditions:
        return SwitchConditions({name: "" for name in self.upstreams}, "", self.unanswered, self.doubts)

    def tick(self) -> None:
        """Advance the state machine's own time."""
        now = time.time()
        if self.state.deadline is not None and self.state.deadline <= now:
            self.take(expire(self.state, now))
        self.take(settle(self.state, self.facts()))

    def take(self, step: Transition) -> None:
        if (step.state.phase, step.state.active) != (self.state.phase, self.state.active):
            self.moments.append((step.state.phase.value, step.state.active))
        self.state = step.state

    def restart(self) -> None:
        """Restart with the state file of the process before."""
        with self.lock:
            self.take(restart(self.state, time.time()))

    def shown(self) -> dict[str, Any]:
        return {
            "name": self.cluster, **asjson.state_as_json(self.state), "unanswered": self.unanswered, "held": 0,
            "upstreams": {name: {"cluster_id": found, "problem": ""} for name, found in self.upstreams.items()},
            "doubts": list(self.doubts), "clients": list(self.clients),
        }  # fmt: skip

    def look(self) -> tuple[int, object]:
        itself = {"version": self.version, "time": time.time() + self.clock, "state_dir": self.state_dir}
        return 200, {"kproxy": itself, "clusters": [self.shown()]}

    def obey(self, command: Command) -> tuple[int, object]:
        made = apply(self.state, command, self.facts(), time.time())
        self.take(made)
        self.tick()
        if made.problem:
            return 409, {"problem": made.problem, "cluster": self.shown()}
        return 200, {"problem": "", "cluster": self.shown()}

    def log_in(self, request: UserCheckRequest) -> object:
        self.checked.append(request)
        logins = {} if request.upstream == "blue" else self.logins
        outcomes = {user: self.outcomes.get(user, LoginOutcome.OWN) for user in request.users}
        return {
            "problem": "",
            "users": {
                user: UserCheck(outcome, logins.get(user, user), "" if outcome is LoginOutcome.OWN else "no").to_json()
                for user, outcome in outcomes.items()
            },
        }


class Cut(Exception):
    """The connection ends without an answer."""


class _Handler(BaseHTTPRequestHandler):
    fake: FakeKproxy

    def do_GET(self) -> None:
        if not self._allowed():
            return
        self._do(None)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self._allowed():
            return
        if self.path == LOGINS_PATH:
            self._answer(200, json.dumps(self.fake.log_in(parse_request(body))).encode())
        else:
            command = asjson.parse_command(body)[1]
            assert isinstance(command, Command)
            self._do(command)

    def _allowed(self) -> bool:
        if self.headers["Authorization"] == f"Bearer {TOKEN}":
            return True
        self._answer(401, b"this request needs the token of kproxy", "text/plain")
        return False

    def _do(self, command: Command | None) -> None:
        fake = self.fake
        try:
            harmed = fake.harm(fake, command)
        except Cut:
            self.close_connection = True
            return
        if harmed is not None:
            self.wfile.write(harmed)
            return
        with fake.lock:
            fake.tick()
            status, said = fake.look() if command is None else fake.obey(command)
        self._answer(status, json.dumps(said).encode())

    def _answer(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header(MARK, "1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        pass  # clients that hang up


@contextmanager
def serving(fake: FakeKproxy) -> Iterator[FakeKproxy]:
    """Serve a fake kproxy at a free address."""
    handler = type("Handler", (_Handler,), {"fake": fake})
    with _Server(("127.0.0.1", 0), handler) as server:
        fake.address = f"127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield fake
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def some(count: int, upstreams: Mapping[str, str], **more: Any) -> Iterator[list[FakeKproxy]]:
    """Serve so many fake kproxies."""
    with ExitStack() as stack:
        yield [stack.enter_context(serving(FakeKproxy(upstreams, **more))) for _ in range(count)]
