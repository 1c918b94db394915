"""The commands of `kproxy migrate`, as a user gives them, each a separate process."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness.clients.spark import bare_environment
from tests.harness.migration.moving import below

_LOOK_S = 0.5


@dataclass(frozen=True)
class Commands:
    """Runs commands with the migration's `file` and Spark's `home`.

    `peaks`: by command, the peak memory of its process and of Spark's driver, in MB. `seconds`: by command, its
    duration.
    """

    file: Path
    home: Path
    secret: str = ""
    peaks: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    seconds: dict[str, float] = field(default_factory=dict)

    def run(self, *words: str, code: int = 0, timeout: float = 300) -> str:
        """Run a command and return its output. Fails on another exit code."""
        return self.said(*words, code=code, timeout=timeout)[0]

    def said(self, *words: str, code: int = 0, timeout: float = 300) -> tuple[str, str]:
        """Run a command and return both outputs."""
        command, *rest = words
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "kproxy", "migrate", command, str(self.file), *rest],
            env=bare_environment(self.home) | {"COLUMNS": "80"}, cwd=self.file.parent, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        ended = threading.Event()
        watch = threading.Thread(target=self._watch, args=(command, process.pid, ended), daemon=True)
        watch.start()
        try:
            output, errors = process.communicate(timeout=timeout)
        except BaseException:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(60)
            process.kill()
            process.communicate()
            raise
        finally:
            ended.set()
            watch.join()
        self.seconds[command] = time.monotonic() - began
        assert process.returncode == code, f"{command}: {process.returncode}\n{output[-3000:]}\n{errors[-3000:]}"
        assert not self.secret or self.secret not in output + errors
        assert "Traceback" not in errors, errors[-3000:]
        return output, errors

    def _watch(self, command: str, pid: int, ended: threading.Event) -> None:
        peaks = self.peaks[command]
        while not ended.wait(_LOOK_S):
            wanted = {pid: "driver's Python"}
            wanted |= {one: "driver's JVM" for one, parent, said in below(pid) if parent == pid and "java" in said}
            for one, name in wanted.items():
                with suppress(OSError, IndexError, ValueError):
                    high = Path(f"/proc/{one}/status").read_text().split("VmHWM:")[1].split()[0]
                    peaks[name] = max(peaks.get(name, 0), int(high) // 1024)
