"""An asyncio selector that runs the data plane inline.

asyncio wraps every event in a handle, a context and a queue. For relayed bytes that costs several times what the
kernel needs. So the sockets of sessions are registered here with a plain callback, which is called from inside
`select()`; only events of the control plane (accept, dial, HTTP, signals) are returned to the loop.

Over epoll on Linux, else over the best selector that the platform has (kqueue on macOS).
"""

from __future__ import annotations

import logging
import select
import selectors
from collections import deque
from collections.abc import Callable, Mapping
from selectors import EVENT_READ, EVENT_WRITE, SelectorKey
from time import monotonic
from typing import Any, Protocol

log = logging.getLogger(__name__)

# The values of EPOLLIN, EPOLLOUT, EPOLLERR and EPOLLHUP, used on every platform. HANGUP covers the last two: both
# come unasked.
READ = 0x01
WRITE = 0x04
HANGUP = 0x08 | 0x10

# How long sockets may wait for deferred work, in seconds, whichever session has caused it.
_WORK_AT_ONCE = 0.0005

Callback = Callable[[int], None]


class Poller(Protocol):
    """The methods of select.epoll that the selector uses."""

    def register(self, fd: int, mask: int) -> None: ...
    def modify(self, fd: int, mask: int) -> None: ...
    def unregister(self, fd: int) -> None: ...
    def poll(self, timeout: float) -> list[tuple[int, int]]: ...
    def close(self) -> None: ...


class PortablePoller:
    """A poller over one of Python's own selectors."""

    def __init__(self, selector: selectors.BaseSelector | None = None) -> None:
        self._selector = selector or selectors.DefaultSelector()
        self._idle: set[int] = set()  # selectors refuse an empty mask, epoll does not

    def register(self, fd: int, mask: int) -> None:
        if mask:
            self._selector.register(fd, (EVENT_READ if mask & READ else 0) | (EVENT_WRITE if mask & WRITE else 0))
        else:
            self._idle.add(fd)

    def modify(self, fd: int, mask: int) -> None:
        self.unregister(fd)
        self.register(fd, mask)

    def unregister(self, fd: int) -> None:
        if fd in self._idle:
            self._idle.discard(fd)
        else:
            self._selector.unregister(fd)

    def poll(self, timeout: float) -> list[tuple[int, int]]:
        events = self._selector.select(None if timeout < 0 else timeout)
        return [
            (key.fd, (READ if mask & EVENT_READ else 0) | (WRITE if mask & EVENT_WRITE else 0)) for key, mask in events
        ]

    def close(self) -> None:
        self._selector.close()


def best_poller() -> Poller:
    """Return epoll where the platform has it, else a `PortablePoller`."""
    epoll: Callable[[], Poller] | None = getattr(select, "epoll", None)
    return PortablePoller() if epoll is None else epoll()


class RelaySelector(selectors.BaseSelector):
    """The selector for a `RelayLoop`.

    `relay(fd, mask, callback)` registers a socket of the data plane; its callback receives a mask of READ, WRITE and
    HANGUP. A callback that schedules something on the loop sets `wake`. What takes long does a little at a time, and
    has itself called again (`defer`).
    """

    def __init__(self, poller: Poller | None = None) -> None:
        self._poller = poller or best_poller()
        # epoll(7): if no other process has the socket, and kproxy gives none away.
        self._forgets_closed = not isinstance(self._poller, PortablePoller)
        self._control: dict[int, SelectorKey] = {}
        self._relayed: dict[int, Callback] = {}
        self._later: deque[Callable[[], None]] = deque()
        self.wake = False

    # The data plane

    def relay(self, fd: int, mask: int, callback: Callback) -> None:
        """Register a socket of the data plane."""
        self._poller.register(fd, mask)
        self._relayed[fd] = callback

    def modify_relay(self, fd: int, mask: int) -> None:
        """Change the events that a socket is watched for."""
        self._poller.modify(fd, mask)

    def replace_relay(self, fd: int, callback: Callback) -> None:
        """Replace the callback of a socket."""
        self._relayed[fd] = callback

    def callback_of(self, fd: int) -> Callback | None:
        """Return the callback of a socket of the data plane, if there is one."""
        return self._relayed.get(fd)

    def end_relay(self, fd: int) -> None:
        """Forget a socket, before it is closed."""
        if self._relayed.pop(fd, None) is not None:
            self._poller.unregister(fd)

    def forget_relay(self, fd: int) -> None:
        """Forget a socket that is closed at once, which takes it from epoll as well."""
        if self._relayed.pop(fd, None) is not None and not self._forgets_closed:
            self._poller.unregister(fd)

    def defer(self, work: Callable[[], None]) -> None:
        """Call this once, after the sockets have had their turn. It should take a fraction of `_WORK_AT_ONCE`."""
        self._later.append(work)

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """Run the data plane until there is an event of the control plane, or until `timeout` seconds are over."""
        poll, relayed, later = self._poller.poll, self._relayed, self._later
        deadline = monotonic() + timeout if timeout is not None and timeout > 0 else None
        wait = -1.0 if timeout is None else max(0.0, timeout)
        while True:
            try:
                events = poll(0.0 if later else wait)
            except InterruptedError:
                return []
            ready = []
            for fd, mask in events:
                callback = relayed.get(fd)
                if callback is not None:
                    callback(mask)
                else:
                    key = self._control.get(fd)
                    if key is not None:  # else closed by a callback of this very round
                        ready.append((key, _selector_mask(mask) & key.events))
            worked = len(later) > 0
            if worked:
                self._work()
            if ready or self.wake or not (events or worked):
                self.wake = False
                return ready
            if deadline is not None:
                wait = deadline - monotonic()
                if wait <= 0:
                    return []
            elif timeout is not None:
                return []

    def _work(self) -> None:
        until = monotonic() + _WORK_AT_ONCE
        while self._later:
            self._later.popleft()()
            if monotonic() >= until:
                return

    # The control plane: selectors.BaseSelector

    def register(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        fd = _fd(fileobj)
        if fd in self._control:
            raise KeyError(f"file descriptor {fd} is already registered")
        key = SelectorKey(fileobj, fd, events, data)
        self._poller.register(fd, _poll_mask(events))
        self._control[fd] = key
        self._relayed.pop(fd, None)  # the callback of a closed socket with the same number
        return key

    def unregister(self, fileobj: Any) -> SelectorKey:
        fd = _fd(fileobj)
        key = self._control.pop(fd)
        try:
            self._poller.unregister(fd)
        except OSError:  # closed already, as BaseSelector allows
            log.debug("file descriptor %d was closed before it was unregistered", fd)
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        fd = _fd(fileobj)
        old = self._control[fd]
        if events != old.events:
            self._poller.modify(fd, _poll_mask(events))
        key = self._control[fd] = SelectorKey(fileobj, fd, events, data)
        return key

    def get_map(self) -> Mapping[Any, SelectorKey]:
        return self._control

    def get_key(self, fileobj: Any) -> SelectorKey:
        return self._control[_fd(fileobj)]

    def close(self) -> None:
        self._control.clear()
        self._relayed.clear()
        self._later.clear()
        self._poller.close()


def _fd(fileobj: Any) -> int:
    return fileobj if isinstance(fileobj, int) else int(fileobj.fileno())


def _poll_mask(events: int) -> int:
    return (READ if events & EVENT_READ else 0) | (WRITE if events & EVENT_WRITE else 0)


def _selector_mask(mask: int) -> int:
    """Return asyncio's mask: an error or a hang-up makes a socket both readable and writable.

    The next call shows which it was.
    """
    if mask & HANGUP:
        return EVENT_READ | EVENT_WRITE
    return (EVENT_READ if mask & READ else 0) | (EVENT_WRITE if mask & WRITE else 0)
