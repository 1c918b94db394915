"""A kproxy that serves an honest cluster beside a hostile one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.harness.process import Kproxy, free_window


class Beside(Kproxy):
    """kproxy with the clusters `honest`, which listens on a wildcard address, and `hostile`, which has a forward."""

    def __init__(self, directory: Path, honest: str, hostile: str, *args: str, open_files: int = 0) -> None:
        first = free_window(300)
        self.admin = f"127.0.0.1:{first + 298}"
        self.honest, self.hostile, self.forward = first, first + 100, first + 299
        self.bootstrap = f"127.0.0.1:{self.hostile}"
        self.log_path, self._findings = directory / "log", directory / "leaks"
        config = directory / "kproxy.yaml"
        config.write_text(
            "clusters:\n"
            f"- {{name: honest, bootstrap-servers: '{honest}', listen: '0.0.0.0:{self.honest}',"
            f" node-ports: {first + 1}-{first + 50}}}\n"
            f"- {{name: hostile, bootstrap-servers: '{hostile}', listen: '127.0.0.1:{self.hostile}',"
            f" node-ports: {first + 101}-{first + 150}, forward: ['{self.forward}=127.0.0.1:1']}}\n"
        )
        command = ["run", "-c", str(config), "--admin", self.admin, *args]
        limited = ["sh", "-c", f'ulimit -n {open_files}; exec "$@"', "sh"] if open_files else []
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [*limited, sys.executable, "-m", "kproxy", *command],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=Path(__file__).parents[3],
            )

    def local(self, node: int) -> str:
        return f"127.0.0.1:{self.hostile + 1 + node}"
