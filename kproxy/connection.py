"""`kproxy.connect`: a kproxy for as long as a part of a Python program runs, such as a notebook.

It is a child process, the same that `kproxy.spark` runs on each host (`kproxy.spark.proxy`): it gets its configuration
through a pipe, reports its state through a socket, and ends when that socket is closed, so also with the program. This
module uses the standard library only, and the program that imports it loads nothing of the proxy.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from kproxy.base.errors import ConfigError, UpstreamError
from kproxy.base.messages.start import KPROXY_NOT_READY
from kproxy.base.printable import one_line
from kproxy.spark import logtail
from kproxy.spark.source import CONFIGURED, ConfigSource, is_path, type_name

_log = logging.getLogger("kproxy")
# Without `listen`, each kproxy has free ports of its own.
_LISTEN = "127.0.0.1:0"
# In seconds: how long kproxy may take to end, and the doctor to find out why no client can connect.
_ENDING, _EXAMINING = 20.0, 60.0
# The most bytes of a reported state, and of a line of the log.
_LONGEST_STATE, _LONGEST_LINE = 4 << 20, 1 << 16
# Runs a module of this kproxy, also if the program found it in another way than a new Python does. With -P, the working
# directory, in which a person has notebooks, is not searched.
_RUN_MODULE = (
    "import runpy, sys; sys.path.append(sys.argv.pop(1)); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


class NotReadyError(UpstreamError):
    """kproxy is not ready in time. Its text has the reason, and what `kproxy doctor` finds, a line each."""

    def __init__(self, reason: str, text: str, findings: Sequence[str]) -> None:
        super().__init__(reason, text)
        self.findings = tuple(one_line(finding, _LONGEST_LINE) for finding in findings)

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *self.findings])


class Connection:
    """A kproxy from `__enter__` to `__exit__`; `connect` makes one. It may be entered again afterwards."""

    def __init__(self, source: ConfigSource, timeout: float) -> None:
        self._source = source
        self._timeout = timeout
        self._child: _Child | None = None
        self._is_abandoned = False

    def __enter__(self) -> str:
        """Start kproxy, wait until it is ready, and return the bootstrap server for clients.

        Raises ConfigError for a mistake in the configuration, and NotReadyError if kproxy is not ready in time. Then no
        process is left.
        """
        if self._child is not None:
            raise ConfigError("this kproxy runs already: leave its `with` before you enter it again")
        text = _text(self._source)
        child = self._child = _Child(text)
        if self._is_abandoned:
            child.abandon()
        try:
            return child.wait_ready(self._timeout)
        except UpstreamError as error:
            self._stop()
            findings = [] if self._is_abandoned else _examine(self._source, text)
            raise NotReadyError(error.reason, str(error), findings) from None
        except BaseException:
            self._stop()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End kproxy, after the requests in flight."""
        self._stop()

    async def __aenter__(self) -> str:
        """Do what `__enter__` does, in a thread. If the task is cancelled, kproxy ends before that is passed on."""
        self._is_abandoned = False
        entering = asyncio.get_running_loop().run_in_executor(None, self.__enter__)
        try:
            return await asyncio.shield(entering)
        except asyncio.CancelledError:
            self._is_abandoned = True
            if self._child is not None:
                self._child.abandon()
            with contextlib.suppress(UpstreamError, ConfigError):
                await entering
            await asyncio.to_thread(self._stop)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Do what `__exit__` does, in a thread."""
        await asyncio.to_thread(self._stop)

    def _stop(self) -> None:
        if (child := self._child) is not None:
            self._child = None
            child.stop()


def connect(config_or_bootstrap: ConfigSource, timeout: float = 30.0) -> Connection:
    """Return a kproxy for a `with` or an `async with`, which gives the bootstrap server for clients.

    Takes bootstrap servers, the path of a YAML file, or the content of such a file as a dict. kproxy is ready within
    `timeout` seconds: by default, each broker is reachable (`ready-requires`). Its warnings go to the logger `kproxy`.
    """
    return Connection(config_or_bootstrap, timeout)


class _Child:
    """The process, and a thread for each of its two outputs: kproxy never waits for the program."""

    def __init__(self, text: str) -> None:
        """Start it. Raises ConfigError if this Python cannot run a process."""
        self._state: dict[str, Any] = {}
        self._has_ended = False
        self._is_stopping = self._is_abandoned = False
        self._changed = threading.Condition()
        self._socket, theirs = socket.socketpair()
        with theirs:
            try:
                # In a session of its own: Ctrl-C on the terminal of the program is not for it.
                self._process = subprocess.Popen(
                    _command("kproxy.spark.proxy", _LISTEN),
                    stdin=subprocess.PIPE, stdout=theirs.fileno(), stderr=subprocess.PIPE,
                    env=_environment(), start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                self._socket.close()
                raise ConfigError(f"{sys.executable or 'Python'} cannot be run: {error.strerror}") from None
        assert self._process.stdin is not None
        assert self._process.stderr is not None
        self._threads = [
            threading.Thread(target=self._read_states, name="kproxy state", daemon=True),
            threading.Thread(target=_pass_on, args=(self._process.stderr,), name="kproxy log", daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        with contextlib.suppress(BrokenPipeError):  # it has ended: `wait_ready` reports that
            self._process.stdin.write(text.encode())
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def wait_ready(self, timeout: float) -> str:
        """Return the bootstrap server when kproxy is ready. Raises ConfigError and UpstreamError."""
        with self._changed:
            self._changed.wait_for(self._is_decided, timeout)
            state, has_ended = self._state, self._has_ended
        if "failed" in state:
            raise ConfigError(*(line.replace("/dev/stdin:1: ", "") for line in str(state["failed"]).splitlines()))
        if has_ended:
            raise UpstreamError("other", f"kproxy has ended with exit code {self._process.wait()} before it was ready")
        if useless := state["useless"][CONFIGURED] if state else "":
            raise UpstreamError("other", useless)
        if why := state["not_ready"][CONFIGURED] if state else "kproxy is starting":
            raise UpstreamError(*KPROXY_NOT_READY.with_reason(host="kproxy.connect", timeout=timeout, why=why))
        return str(state["bootstrap"])

    def abandon(self) -> None:
        """End the wait of `wait_ready` in another thread."""
        with self._changed:
            self._is_abandoned = True
            self._changed.notify_all()

    def _is_decided(self) -> bool:
        if self._is_abandoned or self._has_ended or "failed" in self._state:
            return True
        return bool(self._state) and (
            not self._state["not_ready"][CONFIGURED] or bool(self._state["useless"][CONFIGURED])
        )

    def stop(self) -> None:
        """End kproxy: it notices that the socket is closed, and finishes requests in flight."""
        self._is_stopping = True
        with contextlib.suppress(OSError):  # it has ended already
            self._socket.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(_ENDING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for thread in self._threads:
            thread.join()
        self._socket.close()

    def _read_states(self) -> None:
        """Take in each state that kproxy reports, until it ends."""
        with self._socket.makefile("rb") as states:
            while line := states.readline(_LONGEST_STATE):
                with self._changed:
                    self._state = json.loads(line)
                    self._changed.notify_all()
        was_ready = bool(self._state) and "failed" not in self._state
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()
        if was_ready and not self._is_stopping:
            _log.error("kproxy has ended with exit code %s; its clients have no connection", self._process.wait())


def _pass_on(stderr: IO[bytes]) -> None:
    """Log the warnings and errors of kproxy; what else is on its stderr is for a person who debugs."""
    with stderr:
        while line := stderr.readline(_LONGEST_LINE):
            text = line.decode(errors="replace").rstrip("\n")
            level, message = logtail.parse_line(text) or (logging.DEBUG, text)
            _log.log(level, "%s", one_line(message, _LONGEST_LINE))


def _command(module: str, *words: str) -> Sequence[str]:
    return [sys.executable, "-P", "-c", _RUN_MODULE, str(Path(__file__).parents[1]), module, *words]


def _environment() -> Mapping[str, str]:
    """Return the variables of this process without kproxy's options: the argument of `connect` has all of them."""
    kept = ("KPROXY_PURE", "KPROXY_DEBUG")
    return {name: value for name, value in os.environ.items() if name in kept or not name.startswith("KPROXY_")}


def _text(source: ConfigSource) -> str:
    """Return the configuration as YAML. Raises ConfigError."""
    if isinstance(source, Mapping):
        return json.dumps(source, default=str)
    if not isinstance(source, str | os.PathLike):
        raise ConfigError(
            f"kproxy.connect takes bootstrap servers, the path of a file, or a dict, and not {type_name(source)}"
        )
    if not is_path(source):
        return json.dumps({"bootstrap-servers": source})
    try:
        return Path(source).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigError(f"{os.fspath(source)}: cannot be read: {reason}") from None


def _examine(source: ConfigSource, text: str) -> Sequence[str]:
    """Return what `kproxy doctor` finds, a line each; nothing if it cannot examine the cluster in time."""
    with _named(source, text) as words:
        command = _command("kproxy", "doctor", "--json", *words)
        try:
            done = subprocess.run(
                command,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_EXAMINING,
                check=False,
            )
            reports = json.loads(done.stdout)
        except (OSError, subprocess.TimeoutExpired, ValueError):
            return []
    return [
        line
        for report in (reports if isinstance(reports, list) else [reports])
        for finding in report["findings"]
        if finding["severity"] == "error"
        for line in (f"{finding['text']} [{finding['fault']}]", f"  {finding['advice']}")
    ]


@contextlib.contextmanager
def _named(source: ConfigSource, text: str) -> Iterator[Sequence[str]]:
    """Yield the words with which a command gets the configuration. A dict is in a file of this user alone meanwhile."""
    if isinstance(source, Mapping):
        with tempfile.NamedTemporaryFile("w", prefix="kproxy-", suffix=".yaml") as file:
            file.write(text)
            file.flush()
            yield ["-c", file.name]
    elif is_path(source):
        yield ["-c", os.fspath(source)]
    else:
        yield [str(source)]
