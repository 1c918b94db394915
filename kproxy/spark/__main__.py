"""`python -m kproxy.spark`: commands for the plugin and for people who write command lines.

conf [FILE]              print the --conf options that give the plugin to spark-submit; with FILE no call of attach is
                         needed. They add to spark.jars and spark.plugins of spark-defaults.conf
  --properties-file P    read this file instead of spark-defaults.conf, as spark-submit does
  --load-spark-defaults  read spark-defaults.conf also, as spark-submit does
  --jars J,…             other jars, in place of spark-submit's --jars
  --plugin-jar JAR       the jar of the plugin, if it exists already
  --python PATH          the Python that runs kproxy on executors, as ./env/bin/python from --archives env.tar.gz#env
jar                      print the path of the plugin's jar, for those who use --jars
package [DIR] [NAME …]   in a checkout: build the wheel, the jar and the archive in DIR (default: dist); the archive
                         also has the packages NAME of PyPI
ship FILE                check a configuration and print the text that executors receive (the plugin does this)
ship-openly FILE         the same for a Spark that does not authenticate: refuses secrets
join PID [SECONDS]       take a lease for a process; stdin has the output of ship. While it waits, prints each warning
                         of kproxy: said, the name of this host, the mark of the log, the byte at which the line ends
                         in the log (kproxy.spark.logtail), the line. At the end prints the process id of the keeper,
                         the bootstrap server, the mark of the log, how many bytes of the log have been read, the name
                         of this host, and the path of the log. Exit code 3: kproxy is not ready in time. Exit code 1:
                         waiting does not help
leave PID                give the lease back
"""

from __future__ import annotations

import socket
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kproxy.base.errors import KproxyError, UpstreamError

if TYPE_CHECKING:
    from kproxy.spark.host import HostConfig

_NOT_READY = 3


def main(words: list[str]) -> int:
    """Run a command and return its exit code; errors are one line on stderr."""
    try:
        match words:
            case ["conf", *options]:
                _say(*_conf(options))
            case ["jar"]:
                from kproxy.spark.pluginjar import build_cached_jar

                _say(str(build_cached_jar()))
            case ["package", *rest] if not any(word.startswith("-") for word in rest):
                from kproxy.spark.package import build

                for path in build(Path(*rest[:1] or ["dist"]), rest[1:]):
                    _say(str(path))
            case ["ship" | "ship-openly" as command, file]:
                from kproxy.spark.configuration import build_host_config, check_secrets

                config = build_host_config(file)
                if command == "ship-openly":
                    check_secrets(config, "spark.kproxy.allowUnauthenticated=true")
                _say(config.to_json())
            case ["join" | "leave" as what, pid, *seconds] if pid.isdigit():
                from kproxy.spark.host import HostConfig, Lease, leave

                config = HostConfig.from_json(sys.stdin.read())
                if what == "leave":
                    leave(config, Lease.of(int(pid)))
                else:
                    _join(config, int(pid), float(seconds[0]) if seconds else 60.0)
            case _:
                sys.stderr.write(__doc__ or "")
                return 2
    except KproxyError as error:
        sys.stderr.write(f"{error}\n")
        return _NOT_READY if isinstance(error, UpstreamError) else 1
    return 0


def _join(config: HostConfig, pid: int, seconds: float) -> None:
    from kproxy.spark.host import Lease, join, query_proxy, runtime_path
    from kproxy.spark.logtail import LogLine, LogTail, follow_log

    path, host = runtime_path(config.listen, "log"), socket.gethostname()
    tail = LogTail(path, from_end=query_proxy(config.listen) is not None)

    def say(line: LogLine) -> None:
        _say("said", host, line.mark, str(line.end), line.message)

    with follow_log(tail, say):
        state = join(config, Lease.of(pid), seconds)
    mark, size = tail.position
    _say(str(state.keeper), state.bootstrap, mark, str(size), host, str(path))


def _conf(words: Sequence[str]) -> list[str]:
    """Return --conf options for a shell that splits at blanks and ignores quotes, as in `$(…)`."""
    from kproxy.spark.configuration import build_host_config
    from kproxy.spark.defaults import shell_word, submit_settings
    from kproxy.spark.pluginjar import plugin_settings

    parser = ArgumentParser(prog="python -m kproxy.spark conf", allow_abbrev=False)
    parser.add_argument("file", nargs="?")
    parser.add_argument("--properties-file")
    parser.add_argument("--load-spark-defaults", action="store_true")
    for option in ("--jars", "--plugin-jar", "--python"):
        parser.add_argument(option)
    options = parser.parse_args(words)
    if options.file is not None:
        build_host_config(Path(options.file))  # show mistakes here and not in a driver's log
    spark_settings = plugin_settings(
        options.file,
        [options.jars or ""],
        python=options.python,
        plugin_jar=options.plugin_jar,
        before=submit_settings(options.properties_file, options.load_spark_defaults),
    )
    return [part for setting, value in spark_settings.items() for part in ("--conf", shell_word(setting, value))]


def _say(*lines: str) -> None:
    sys.stdout.write(" ".join(lines) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
