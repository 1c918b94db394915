"""The calls: what kproxy does with each API and version towards one node, and the counters of each.

The verdicts of a guard are here, and not in `guard`, which only sessions of switched clusters need.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import Enum, auto
from functools import cached_property, partial
from typing import TYPE_CHECKING, Protocol

from kproxy.protocol.rewrite.apiversions import TABLE_VERSIONS, unsupported_version
from kproxy.protocol.rewrite.endpoints import Localise
from kproxy.protocol.rewrite.response import ApiVersionsResponse, Response, response_for
from kproxy.protocol.rewrite.walkplan import WalkPlan, plan_for
from kproxy.protocol.wire.api import APIS, ApiKey
from kproxy.protocol.wire.primitives import Buffer
from kproxy.proxy.relay.introduction import NAMES_SINCE
from kproxy.proxy.switching.caps import offered_versions
from kproxy.proxy.switching.writes import WRITES

if TYPE_CHECKING:
    from kproxy.proxy.relay.guard import EpochGuard
    from kproxy.proxy.relay.judged import Authorizer

# The APIs that a client uses before and for its login.
LOGIN_APIS = frozenset({ApiKey.API_VERSIONS.value, ApiKey.SASL_HANDSHAKE.value, ApiKey.SASL_AUTHENTICATE.value})
# Those that it uses once the login has begun: an ApiVersions request that comes later belongs behind the login.
SASL_APIS = LOGIN_APIS - {ApiKey.API_VERSIONS.value}
NO_KEY = -1
"""The API key of frames that no client's request has caused."""
# The longest response to kproxy between a client's requests, in bytes: tokens, or a list of all nodes.
_LONGEST_OWN = 4 * 1024 * 1024


LONGEST_REQUEST = 1024 * 1024
"""The most bytes of a request that are kept until it can be judged: a Fetch of 30,000 partitions."""


class GuardVerdict(Enum):
    """The verdict of a guard or an authorizer on a request. It may also answer the request: then that is the verdict.

    An authorizer has two more: see `judged`.
    """

    PASS = auto()
    MORE = auto()
    """It cannot be judged before it has come whole."""
    HOLD = auto()
    """It waits, with what stands behind it; it is judged again when the guard or the authorizer calls for it."""


class Counters(Protocol):
    """The counters of one API and version; the metrics room's CallCounters."""

    count: int

    def add(self, seconds: float, times: int = 1) -> None:
        """Count the time from a request to the beginning of its response, for this many of them."""


class Call:
    """One API in one version towards one node: what to do with its frames, and its counters."""

    __slots__ = (
        "api",
        "authorizer",
        "counters",
        "edited",
        "guard",
        "highest",
        "is_judged",
        "is_local",
        "key",
        "plain",
        "plan",
        "special",
        "version",
    )

    def __init__(self, key: int, version: int, counters: Counters, highest: Mapping[int, int] = TABLE_VERSIONS) -> None:
        self.key = key
        self.version = version
        self.api = APIS[key].name
        self.counters = counters
        self.highest = highest
        self.guard: EpochGuard | None = None
        self.authorizer: Authorizer | None = None
        self.is_judged = False  # by one of the two
        self.is_local = False
        self.plan: WalkPlan | None = plan_for(key, version)
        # True if its requests must be read beyond their first 12 bytes, or judged by a guard.
        self.special = key in (ApiKey.PRODUCE, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE) or (
            key == ApiKey.API_VERSIONS and version >= NAMES_SINCE
        )
        # True if its responses may have to be edited.
        self.edited = self.plan is not None or key == ApiKey.API_VERSIONS
        # The shape of responses that need not be edited after all.
        self.plain = None if self.plan is None else self.plan.plain

    def respond(self, size: int, available: int, localise: Localise) -> Response:
        """Return the parser of a response of `size` bytes that may be edited, of which `available` have come."""
        if self.plan is None:
            return ApiVersionsResponse(self.version, size, self.highest)
        return response_for(self.plan, size, available, localise)


class OwnCall(Call):
    """A request of kproxy's own, between those of a client: its response goes to `on_response`, without the size."""

    __slots__ = ("_on_response",)

    def __init__(self, on_response: Callable[[bytes], None]) -> None:
        self.api = ""
        self.key = NO_KEY
        self.is_local = False
        self.counters = _NoCounters()
        self.edited = True
        self.plain = None
        self._on_response = on_response

    def respond(self, size: int, available: int, localise: Localise) -> Response:
        return _OwnResponse(size, self._on_response)


class LocalCall(Call):
    """Requests that kproxy answers itself: they reach no broker, and are not counted.

    `answer` returns the answer for a correlation id. `size` is the number of bytes that wait with it.
    """

    __slots__ = ("answer", "size")

    def __init__(self, key: int, version: int, answer: Callable[[int], bytes], size: int = 0) -> None:
        self.size = size
        self.api = ""
        self.key = key
        self.version = version
        self.is_local = True
        self.counters = _NoCounters()
        self.answer = answer


class _OwnResponse(Response):
    """A response to kproxy itself: no byte of it passes."""

    def __init__(self, size: int, on_response: Callable[[bytes], None]) -> None:
        super().__init__(size)
        self._on_response = on_response

    def _feed(self, chunk: Buffer, ends: bool) -> tuple[int, Buffer]:
        self._hold(chunk, _LONGEST_OWN, "a response to kproxy itself")
        if ends:
            self._on_response(bytes(self._held[4:]))
        return len(chunk), b""


class _NoCounters:
    count = 0

    def add(self, seconds: float, times: int = 1) -> None: ...


class Calls(dict[int, "Call | None"]):
    """The calls towards one node, by `api_key << 16 | version`; None for what kproxy does not pass on.

    `highest` has the newest version of each API of which kproxy passes on less than it could.
    """

    def __init__(
        self, counters: Callable[[int, str, int], Counters], highest: Mapping[int, int] = TABLE_VERSIONS
    ) -> None:
        self._counters = counters
        self.highest = highest

    def __missing__(self, code: int) -> Call | None:
        key, version = code >> 16, code & 0xFFFF
        api = APIS.get(key)
        if api is None or not api.serves(version) or version > self.highest.get(key, version):
            return None  # not cached: a client chooses the number
        call = self[code] = Call(key, version, self._counters(code, api.name, version), self.highest)
        return call

    def forget(self, keys: Collection[int]) -> None:
        """Forget the calls of these APIs: they are looked up anew. What all sessions share is kept."""

    def forget_all(self) -> None:
        """Forget all calls, as `forget`: what is decided about them has changed."""

    @cached_property
    def too_new(self) -> LocalCall:
        """The call of every ApiVersions request of a later version than the node supports."""
        return LocalCall(ApiKey.API_VERSIONS, 0, partial(unsupported_version, highest=self.highest))

    @cached_property
    def without_writes(self) -> Calls:
        """These calls, but None for writes."""
        return _CallsWithoutWrites(self)


class SelectedCalls(Calls):
    """The base of calls that take the place of others, for some APIs or in some sessions."""

    def __init__(self, calls: Calls) -> None:
        self.highest = calls.highest
        self._all = calls

    def forget(self, keys: Collection[int]) -> None:
        for code in [code for code in self if code >> 16 in keys]:
            del self[code]
        self._all.forget(keys)

    def forget_all(self) -> None:
        self.clear()
        self.__dict__.pop("without_writes", None)
        self._all.forget_all()


class LoginCalls(SelectedCalls):
    """The calls of the APIs with these keys towards a node, with which a client logs in; None for any other."""

    def __init__(self, calls: Calls, keys: Collection[int]) -> None:
        super().__init__(calls)
        self._keys = keys

    def __missing__(self, code: int) -> Call | None:
        return self._all[code] if code >> 16 in self._keys else None


class _CallsWithoutWrites(SelectedCalls):
    """The calls towards a node that are no writes; None for writes."""

    def __missing__(self, code: int) -> Call | None:
        return None if code >> 16 in WRITES else self._all[code]


class SessionCalls(SelectedCalls):
    """The calls towards a node as one session uses them, which records the APIs that it has used.

    That costs something only when it uses a call for the first time. `software` is the name of its client's software,
    to which kproxy may offer older versions than to others.
    """

    def __init__(self, calls: Calls) -> None:
        super().__init__(calls)
        self.software = ""

    def __missing__(self, code: int) -> Call | None:
        call = self._all[code]
        if call is not None:
            if call.key == ApiKey.API_VERSIONS:
                call = self._offering(call)
            self[code] = call
        return call

    def forget_all(self) -> None:
        """Look up all calls anew; that they were used stays recorded."""
        self.__dict__.pop("without_writes", None)
        self._all.forget_all()
        for code in list(self):
            self.__missing__(code)

    def _offering(self, call: Call) -> Call:
        highest = offered_versions(self.software, call.highest)
        return call if highest is call.highest else Call(call.key, call.version, call.counters, highest)

    def has_used(self, keys: Collection[int]) -> bool:
        """Check whether the session has used one of these APIs, since `forget` at least."""
        return any(code >> 16 in keys for code in self)
