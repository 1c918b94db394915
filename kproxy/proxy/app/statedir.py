"""The state directory (`--state-dir`): what a kproxy must know again after a restart, a file for each unit.

One process at a time uses it. A file is replaced as a whole, and is on the disk before `write` returns: what kproxy
does next relies on that. It is written on the thread of the data plane, a few times in a switch, so the directory
belongs on a local disk. While writes are held, room for the next state is kept beside it: a disk that gets full then
does not prevent the end of the hold.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import sys
from dataclasses import replace
from pathlib import Path

from kproxy.base import regularfile
from kproxy.base.errors import ConfigError
from kproxy.base.messages.switches import STATE_NOT_WRITTEN, STATE_RETRIED, STATE_WRITTEN
from kproxy.proxy.switching import asjson
from kproxy.proxy.switching.asjson import SavedState
from kproxy.proxy.switching.participant import Phase
from kproxy.proxy.switching.parts import split_unit

log = logging.getLogger(__name__)

# No state has more bytes.
_MOST = 512 * 1024
# By how many bytes the next state of a switch may be longer than this one: names, a reason, some numbers.
_LONGER = 4096
_PRIVATE = 0o600
_SCRATCH = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class StateDir:
    """The directory, locked for as long as this object is open."""

    def __init__(self, path: Path) -> None:
        """Make it if it is missing. Raises ConfigError if it cannot be used, or another kproxy uses it."""
        self._path = path
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise ConfigError(f"--state-dir: {path} cannot be used: {error.strerror}") from None
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            self._lock = os.open("lock", flags, _PRIVATE, dir_fd=self._folder)
        except OSError as error:
            os.close(self._folder)
            raise ConfigError(f"--state-dir: {path / 'lock'} cannot be opened: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.close()
            if isinstance(error, BlockingIOError):
                text = "another kproxy uses it; give each process a directory of its own"
            else:
                text = f"it cannot be locked: {error.strerror}; use a directory on a local disk"
            raise ConfigError(f"--state-dir: {path}: {text}") from None

    def close(self) -> None:
        """Unlock it for another process."""
        for descriptor in (self._lock, self._folder):
            os.close(descriptor)

    def read(self, unit: str) -> SavedState | None:
        """Return the state of a unit; None if there is none yet.

        Raises ConfigError if it cannot be read: a kproxy that guessed could route clients to the wrong upstream.
        """
        name = _file_of(unit)
        try:
            data = self._contents(name)
            return None if data is None else asjson.decode_state_file(data, unit)
        except OSError as error:
            problem = f"cannot be read: {error.strerror}"
        except ValueError as error:
            problem = f"is no state from which kproxy can continue: {error}"
        text = "put back the right file, or remove it if you know to which upstream the other kproxies route"
        raise ConfigError(f"--state-dir: {self._path / name} {problem}; {text}")

    def forget(self, unit: str) -> None:
        """Remove the state of this unit. Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_file_of(unit), dir_fd=self._folder)
            os.fsync(self._folder)

    def file(self, unit: str) -> Path:
        """Return the file of a unit, for messages."""
        return self._path / _file_of(unit)

    def _contents(self, name: str) -> bytes | None:
        try:
            return regularfile.read(name, _MOST, directory=self._folder, follow_links=False)
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise ValueError(f"it {error}") from None

    def write(self, unit: str, saved: SavedState) -> None:
        """Store the state of a unit, without `fetched` if it would be too long to read again.

        Clients choose their names. Raises OSError; then the file is what it was before, or, if only the directory could
        not be synced, the new one: `read` shows which.
        """
        data = asjson.encode_state_file(unit, saved)
        if len(data) > _MOST:
            data = asjson.encode_state_file(unit, replace(saved, fetched=None))
        name = _file_of(unit)
        scratch = f".{name}.new"
        descriptor = os.open(scratch, _SCRATCH, _PRIVATE, dir_fd=self._folder)  # not truncated: it may be kept room
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.truncate()
            _sync(descriptor)
        os.replace(scratch, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        os.fsync(self._folder)
        if saved.state.holds:
            self._keep_room(scratch, len(data) + _LONGER)

    def _keep_room(self, scratch: str, size: int) -> None:
        """Keep room for the next state. If that is not possible, the next state is written where there is room."""
        if sys.platform == "darwin":
            return
        with contextlib.suppress(OSError):
            descriptor = os.open(scratch, _SCRATCH, _PRIVATE, dir_fd=self._folder)
            try:
                os.posix_fallocate(descriptor, 0, size)
            finally:
                os.close(descriptor)


def _sync(descriptor: int) -> None:
    """Let the disk store what was written. Raises OSError.

    On macOS, fsync(2) leaves it in the cache of the disk, which loses it without power. Not all file systems have more.
    """
    if sys.platform == "darwin":
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


class StateWriter:
    """The writer of one unit. `problem`: why the last write failed, or "". `directory`: None if nothing is stored."""

    def __init__(self, directory: StateDir | None, unit: str) -> None:
        self.directory = directory
        self.problem = ""
        self._unit = unit
        self._tried_commit = False  # since something was written

    def write(self, saved: SavedState) -> str:
        """Store this from now on. Return why that was not possible, or ""."""
        if self.directory is None:
            return ""
        try:
            self.directory.write(self._unit, saved)
        except OSError as error:
            self._tried_commit |= saved.state.phase is Phase.COMMITTED
            problem = STATE_NOT_WRITTEN(error=error.strerror)
            if problem != self.problem:
                log.error(STATE_RETRIED(unit=self._unit, problem=problem))
            self.problem = problem
            return problem
        if self.problem:
            log.warning(STATE_WRITTEN(unit=self._unit))
        self.problem, self._tried_commit = "", False
        return ""

    @property
    def may_be_committed(self) -> bool:
        """True if another process may find a commit here though its write failed: it may be there all the same."""
        if self.directory is None or not self._tried_commit:
            return False
        try:
            stored = self.directory.read(self._unit)
        except ConfigError:
            return True
        return stored is None or stored.state.phase is Phase.COMMITTED


def _file_of(unit: str) -> str:
    cluster, part = split_unit(unit)
    return f"cluster-{cluster}.{part}.json" if part else f"cluster-{cluster}.json"
