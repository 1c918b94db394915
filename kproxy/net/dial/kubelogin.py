"""Credentials for a Kubernetes API server: those of the kubeconfig, or of its exec plugin while they are valid.

The plugin is a program of the user's (client.authentication.k8s.io): cloud logins and OIDC work that way.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from time import time
from typing import Any

from kproxy.base.errors import ViaError
from kproxy.base.messages.hops import KUBERNETES_NOT_LOGGED_IN
from kproxy.base.printable import one_line
from kproxy.net.dial.connector import Deadline
from kproxy.net.dial.kubeconfig import BadKubeconfig, KubeServer, read_kube_server, tls_context

# A plugin may ask a slow identity provider. It cannot ask the user: kproxy runs it without a terminal.
_PLUGIN_SECONDS = 60.0
_MOST = 1024 * 1024
# Files are read again after this time, in seconds; it is also the lifetime of a plugin's answer without an expiry.
_LIFETIME = 60.0
_MARGIN, _SHORTEST_LIFETIME = 10.0, 5.0
_PAUSE_AFTER_FAILURE = 2.0


@dataclass(frozen=True, slots=True)
class KubeLogin:
    """Credentials for an API server, valid until `until` of the loop's clock."""

    server: KubeServer
    tls: ssl.SSLContext | None
    authorization: str = field(repr=False)
    until: float

    @property
    def tls_name(self) -> str | None:
        """The name that the server's certificate must have."""
        return None if self.tls is None else self.server.tls_name or self.server.address.host


class KubeLogins:
    """The credentials of one hop. Fetching them continues in `tasks` even if no caller waits any longer."""

    def __init__(self, name: str, context: str | None, tasks: asyncio.TaskGroup) -> None:
        self._name = name
        self._context = context
        self._tasks = tasks
        self._login: KubeLogin | None = None
        self._login_task: asyncio.Task[None] | None = None
        self._failure: ViaError | None = None
        self._not_before = 0.0

    async def current(self, deadline: Deadline) -> KubeLogin:
        """Return the current credentials, fetched if necessary. Raises ViaError."""
        now = asyncio.get_running_loop().time()
        if self._login is None or self._login.until <= now:
            if self._login_task is None and now >= self._not_before:
                self._login, self._failure = None, None
                self._login_task = self._tasks.create_task(self._log_in())
            if (login_task := self._login_task) is not None:
                await asyncio.wait([login_task], timeout=deadline.remaining)
                if not login_task.done():
                    text = (
                        f"the login program of the kubeconfig gave nothing within {deadline.seconds:g} s, still waiting"
                    )
                    raise ViaError("kubernetes-auth", f"{self._name}: {text}")
        if self._login is None:
            text = f"{self._name}: not logged in" if self._failure is None else str(self._failure)
            raise ViaError("kubernetes-auth" if self._failure is None else self._failure.reason, text)
        return self._login

    def discard(self, login: KubeLogin) -> None:
        """Drop credentials that the server has refused; the next call of `current` fetches new ones."""
        if self._login is login:
            self._login = None

    async def _log_in(self) -> None:
        try:
            self._login = await self._new_login()
        except BadKubeconfig as error:
            self._failure = ViaError("kubernetes", f"{self._name}: {error}")
        except ViaError as error:
            self._failure = error
        except Exception as error:  # noqa: BLE001 - no output of a program and no file may end kproxy
            self._failure = ViaError("kubernetes-auth", f"{self._name}: no login: {type(error).__name__}")
        finally:
            self._login_task = None
            if self._login is None:
                self._not_before = asyncio.get_running_loop().time() + _PAUSE_AFTER_FAILURE

    async def _new_login(self) -> KubeLogin:
        server = await asyncio.to_thread(read_kube_server, self._context)
        pems, authorization, lifetime = dict(server.pems), server.authorization, _LIFETIME
        if server.plugin is not None:
            try:
                status = await _ask_plugin(server, server.plugin)
            except (OSError, ValueError, TimeoutError) as error:
                command = one_line(str(server.plugin.get("command")), 100)
                raise ViaError(
                    *KUBERNETES_NOT_LOGGED_IN.with_reason(
                        name=self._name, command=command, context=server.context, error=_explain(error)
                    )
                ) from None
            lifetime = _lifetime(status.get("expirationTimestamp"))
            for what, key in (("certificate", "clientCertificateData"), ("key", "clientKeyData")):
                if status.get(key):
                    pems[what] = str(status[key])
            if status.get("token"):
                authorization = f"Bearer {status['token']}"
        tls = await asyncio.to_thread(tls_context, server, pems) if server.tls else None
        if not authorization.isascii() or not authorization.isprintable():
            raise BadKubeconfig(f"the token of context '{server.context}' has characters that no token has")
        return KubeLogin(server, tls, authorization, asyncio.get_running_loop().time() + lifetime)

    async def close(self) -> None:
        if self._login_task is not None:
            self._login_task.cancel()


def _explain(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "is not installed"
    if isinstance(error, TimeoutError):
        return f"gave nothing within {_PLUGIN_SECONDS:g} s: log in once where it can ask you (kubectl get pods)"
    if isinstance(error, OSError):
        return f"cannot be run: {error.strerror}"
    return f"{error}: log in again; try 'kubectl get pods'"


def _lifetime(timestamp: object) -> float:
    if not isinstance(timestamp, str):
        return _LIFETIME
    try:
        return max(_SHORTEST_LIFETIME, datetime.fromisoformat(timestamp).timestamp() - time() - _MARGIN)
    except ValueError:
        return _LIFETIME


async def _ask_plugin(server: KubeServer, plugin: Mapping[str, Any]) -> dict[str, Any]:
    """Run the plugin, and return the status of its ExecCredential.

    Raises OSError, TimeoutError, and ValueError with a text for the user.
    """
    command = str(plugin["command"])
    if "/" in command:  # relative to the file, as kubectl has it
        command = str(server.directory / Path(command))
    version = str(plugin.get("apiVersion") or "client.authentication.k8s.io/v1")
    spec: dict[str, Any] = {"interactive": False}
    if plugin.get("provideClusterInfo"):
        spec["cluster"] = server.cluster
    credential_request = {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
    variables = {str(variable["name"]): str(variable["value"]) for variable in plugin.get("env") or ()}
    process = await asyncio.create_subprocess_exec(
        command,
        *(str(argument) for argument in plugin.get("args") or ()),
        env={**os.environ, **variables, "KUBERNETES_EXEC_INFO": json.dumps(credential_request)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(_PLUGIN_SECONDS):
            output, error_output = await asyncio.gather(_read_bounded(process.stdout), _read_bounded(process.stderr))
            code = await process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        # A child of the plugin may keep the pipes open for ever, and its output is no longer needed.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await process.communicate()
    if code != 0:
        last = error_output.decode(errors="replace").strip().rpartition("\n")[2]
        raise ValueError(f"ended with {code} ({one_line(last, 200)})")
    try:
        status = json.loads(output)["status"]
    except (ValueError, KeyError, TypeError, RecursionError):
        status = None
    if not isinstance(status, dict) or not (status.get("token") or status.get("clientCertificateData")):
        raise ValueError("gave no ExecCredential with a token or a certificate")
    return status


async def _read_bounded(stream: asyncio.StreamReader) -> bytes:
    """Read a stream to its end. Raises ValueError if it has more than `_MOST` bytes."""
    output, size = b"", 0
    while data := await stream.read(65536):
        size += len(data)
        output = (output + data)[:_MOST]
    if size > _MOST:
        raise ValueError("printed more than a credential")
    return output
