"""Chromium without a window, driven through the DevTools protocol over a pipe.

It needs no port and no library, and never touches another browser of this machine.

    with Browser() as browser:
        browser.open("http://127.0.0.1:19091/")
        browser.wait_for("document.title == 'kproxy'")
        browser.key("Tab")
        assert browser.js("document.activeElement.id") == "pause"
        assert browser.console == []
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kproxy.dev.devcluster.jars import cache_directory
from tests.harness.process import PATIENCE_S

AXE = "4.10.3"

# The browser reads commands from descriptor 3 and writes to 4; a shell cannot be relied on to move larger numbers.
_LAUNCH = """
import fcntl, os, sys
# First out of the way of both, for either may be 3 or 4 itself.
r, w = (fcntl.fcntl(int(one), fcntl.F_DUPFD, 10) for one in sys.argv[1:3])
os.dup2(r, 3)
os.dup2(w, 4)
os.closerange(5, 256)
os.execv(sys.argv[3], sys.argv[3:])
"""
_SWITCHES = [
    "--headless=new",
    "--no-sandbox",  # as root it has none
    "--remote-debugging-pipe",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-proxy-server",
    "--mute-audio",
    "--password-store=basic",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
]
# Windows's virtual key codes, by which Chromium acts on a key; what is not here is a character.
_KEYS = {
    "Tab": 9,
    "Enter": 13,
    "Escape": 27,
    " ": 32,
    "PageUp": 33,
    "PageDown": 34,
    "End": 35,
    "Home": 36,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
    "Backspace": 8,
}


def chromium() -> str | None:
    """Return the path of the browser, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class NoAxe(Exception):
    """axe-core is not available here; the text has the reason."""


@cache
def axe_source() -> str:
    """Return the script of axe-core, fetched once with npm. Raises NoAxe."""
    made = cache_directory() / f"axe-core-{AXE}"
    script = made / "node_modules/axe-core/axe.min.js"
    if not script.exists():
        npm = shutil.which("npm")
        if npm is None:
            raise NoAxe("npm is not on this machine")
        made.parent.mkdir(parents=True, exist_ok=True)
        # In a directory of its own, and then moved there in one step: other processes fetch it too.
        with tempfile.TemporaryDirectory(dir=made.parent) as fresh:
            quiet = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel", "error"]
            command = [npm, "install", "--prefix", fresh, *quiet, f"axe-core@{AXE}"]
            fetched = subprocess.run(command, cwd=fresh, capture_output=True, text=True, timeout=300, check=False)
            if fetched.returncode:
                raise NoAxe(f"npm could not fetch axe-core: {fetched.stderr.strip()[-500:]}")
            target = Path(fresh, "made")
            target.mkdir()
            Path(fresh, "node_modules").rename(target / "node_modules")
            with contextlib.suppress(OSError):  # another was faster
                target.rename(made)
    return script.read_text()


@dataclass(frozen=True, slots=True)
class Violation:
    """A violation that axe-core reports: the rule, its impact, and the elements."""

    rule: str
    impact: str
    help: str
    where: tuple[str, ...]


class Failed(AssertionError):
    """The browser refused a command, or a script threw an exception."""


class Browser:
    """One browser with one page. `console` has its warnings and errors, and uncaught exceptions."""

    def __init__(self, width: int = 1280, height: int = 900) -> None:
        program = chromium()
        if program is None:
            raise FileNotFoundError("chromium is not on this machine")
        self.console: list[str] = []
        self._answers: dict[int, queue.SimpleQueue[dict[str, Any]]] = {}
        self._number = 0
        self._session: str | None = None
        self._ended = False
        self._look = {"prefers-color-scheme": "light"}
        self._home = tempfile.mkdtemp(prefix="kproxy-browser-")
        commands, self._write = os.pipe()
        self._read, events = os.pipe()
        arguments = [program, *_SWITCHES, f"--user-data-dir={self._home}/profile", f"--window-size={width},{height}"]
        launch = [sys.executable, "-c", _LAUNCH, str(commands), str(events), *arguments, "about:blank"]
        surroundings = {"PATH": os.environ.get("PATH", ""), "HOME": self._home, "TMPDIR": self._home, "LANG": "C.UTF-8"}
        self._process = subprocess.Popen(
            launch,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(commands, events),
            env=surroundings | ({"TZ": os.environ["TZ"]} if "TZ" in os.environ else {}),
            start_new_session=True,  # a group of its own, so that it can be ended as a whole
        )
        os.close(commands)
        os.close(events)
        self._reader = threading.Thread(target=self._listen, name="browser", daemon=True)
        self._reader.start()
        try:
            target = self.send("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.send(f"{domain}.enable")
            self.size(width, height)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the browser and everything that it started, and remove its profile."""
        if not self._ended:
            self._session = None
            with contextlib.suppress(Failed, OSError):
                self.send("Browser.close", patience=10)
        with contextlib.suppress(OSError):
            os.close(self._write)
        self._write = -1
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        with contextlib.suppress(ProcessLookupError):  # what is left of its group, if anything is
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join()
        shutil.rmtree(self._home, ignore_errors=True)

    def send(self, method: str, patience: float = PATIENCE_S, **parameters: Any) -> dict[str, Any]:
        """Send one command of the DevTools protocol, and return its answer."""
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        answers = self._answers[number] = queue.SimpleQueue()
        if self._ended:
            raise Failed("the browser has ended")
        unsent = memoryview(json.dumps(message).encode() + b"\0")
        while unsent:
            unsent = unsent[os.write(self._write, unsent) :]
        try:
            answer = answers.get(timeout=patience)
        except queue.Empty:
            raise Failed(f"the browser does not answer {method}") from None
        finally:
            del self._answers[number]
        if "error" in answer:
            raise Failed(f"{method}: {answer['error'].get('message')}")
        return dict(answer.get("result", {}))

    def open(self, url: str) -> None:
        """Load a page, and wait until it is loaded."""
        failed = self.send("Page.navigate", url=url).get("errorText")
        if failed:
            raise Failed(f"{url}: {failed}")
        self.wait_for(f"document.readyState == 'complete' && location.href.startsWith({json.dumps(url)})")

    def js(self, expression: str) -> Any:
        """Return the value of an expression in the page, after waiting for a promise."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if thrown := answer.get("exceptionDetails"):
            raise Failed(f"{expression[:500]}: {thrown.get('exception', {}).get('description') or thrown['text']}")
        return answer["result"].get("value")

    def wait_for(self, expression: str, seconds: float = PATIENCE_S) -> Any:
        """Poll until the expression is true, and return its value."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(Failed):  # the page changes just now
                if value := self.js(expression):
                    return value
            time.sleep(0.05)
        raise AssertionError(f"not within {seconds:g} s: {expression}; console: {self.console}")

    def text(self, selector: str) -> str:
        """Return the text that a person reads in an element."""
        return str(self.js(f"document.querySelector({json.dumps(selector)}).innerText"))

    def click(self, selector: str) -> None:
        self.js(f"document.querySelector({json.dumps(selector)}).click()")

    def key(self, key: str, *modifiers: str) -> None:
        """Press and release a key ("Tab", "Enter", "ArrowDown", "a"); modifiers: "Shift", "Control", "Alt"."""
        held = sum({"Alt": 1, "Control": 2, "Shift": 8}[one] for one in modifiers)
        code = _KEYS.get(key, ord(key.upper()) if len(key) == 1 else 0)
        typed = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        common = {"key": key, "windowsVirtualKeyCode": code, "modifiers": held}
        self.send("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": typed} if typed else {}))
        self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text: str) -> None:
        for one in text:
            self.key(one)

    def size(self, width: int, height: int) -> None:
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )

    def dark(self, on: bool) -> None:
        self.looks(**{"prefers-color-scheme": "dark" if on else "light"})

    def looks(self, **features: str) -> None:
        """Set media features such as `prefers-contrast`."""
        self._look |= features
        pairs = [{"name": name, "value": value} for name, value in self._look.items()]
        self.send("Emulation.setEmulatedMedia", features=pairs)

    def screenshot(self, path: Path, whole: bool = False) -> None:
        """Return a PNG of the window, or of the `whole` page."""
        parameters: dict[str, Any] = {"format": "png"}
        if whole:
            content = self.send("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": content["width"], "height": min(content["height"], 12000), "scale": 1}
            parameters |= {"captureBeyondViewport": True, "clip": clip}
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", **parameters)["data"]))

    def axe(self, **options: Any) -> list[Violation]:
        """Return the violations that axe-core finds in the current page. Raises NoAxe."""
        if not self.js("typeof axe == 'object'"):
            self.send("Runtime.evaluate", expression=axe_source())
        found = self.js(f"axe.run(document, {json.dumps(options)}).then((result) => result.violations)")
        return [
            Violation(
                one["id"],
                one["impact"],
                one["help"],
                tuple(f"{n['target']} {n['failureSummary']}" for n in one["nodes"]),
            )
            for one in found
        ]

    def _listen(self) -> None:
        """Read the browser's messages until it ends."""
        unread = b""
        with os.fdopen(self._read, "rb", buffering=0) as pipe:
            while received := pipe.read(1 << 20):
                *messages, unread = (unread + received).split(b"\0")
                for message in messages:
                    self._take(json.loads(message))
        self._ended = True
        for answers in list(self._answers.values()):
            answers.put({"error": {"message": "the browser has ended"}})

    def _take(self, message: Mapping[str, Any]) -> None:
        if "id" in message:
            if answers := self._answers.get(message["id"]):
                answers.put(dict(message))
            return
        told = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                thrown = told["exceptionDetails"]
                self.console.append(f"exception: {thrown.get('exception', {}).get('description') or thrown['text']}")
            case "Runtime.consoleAPICalled" if told["type"] in ("error", "warning", "assert"):
                self.console.append(f"{told['type']}: {_printed(told['args'])}")
            case "Log.entryAdded" if told["entry"]["level"] in ("error", "warning"):
                entry = told["entry"]
                self.console.append(f"{entry['source']} {entry['level']}: {entry['text']} {entry.get('url', '')}")


def _printed(arguments: Sequence[Mapping[str, Any]]) -> str:
    return " ".join(str(one.get("value", one.get("description", ""))) for one in arguments)
