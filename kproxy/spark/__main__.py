"""`python -m kproxy.spark`: for the plugin, and for those who write command lines.

conf [FILE]   print the --conf options that give the plugin to spark-submit; with FILE no call of attach is needed
jar           print the path of the plugin's jar, for those who use --jars
ship FILE     check a configuration and print what executors are told (the plugin does this); ship-openly, for a Spark
              that does not authenticate, refuses secrets
join PID [SECONDS]
              take a lease for a process, what is shipped on stdin; prints the keeper's id, the bootstrap server, how
              much of the log is from before, this host's name, and the path of the log
leave PID     give it back
"""

from __future__ import annotations

import shlex
import socket
import sys

from kproxy.errors import KproxyError


def main(words: list[str]) -> int:
    """Returns an exit code; errors are one line on stderr."""
    try:
        match words:
            case ["conf"] | ["conf", _]:
                from kproxy.spark.pluginjar import settings

                _say(*(f"--conf {shlex.quote(f'{key}={value}')}" for key, value in settings(*words[1:]).items()))
            case ["jar"]:
                from kproxy.spark.pluginjar import jar

                _say(str(jar()))
            case ["ship" | "ship-openly" as how, file]:
                from kproxy.spark.configuration import check_secrets, shipped

                told = shipped(file)
                if how == "ship-openly":
                    check_secrets(told, "spark.kproxy.allowUnauthenticated=true")
                _say(told.to_json())
            case ["join" | "leave" as what, pid, *seconds] if pid.isdigit():
                from kproxy.spark.host import Lease, Shipped, join, leave, look, place

                told = Shipped.from_json(sys.stdin.read())
                if what == "leave":
                    leave(told, Lease.of(int(pid)))
                else:
                    path = place(told.listen, "log")
                    size = path.stat().st_size if look(told.listen) and path.exists() else 0
                    answer = join(told, Lease.of(int(pid)), *map(float, seconds))
                    _say(str(answer.keeper), answer.bootstrap, str(size), socket.gethostname(), str(path))
            case _:
                sys.stderr.write(__doc__ or "")
                return 2
    except KproxyError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _say(*lines: str) -> None:
    sys.stdout.write(" ".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
