"""The Spark settings that exist before kproxy adds its own, and how to add to a list of them.

`spark.jars` and `spark.plugins` are lists. On a command line or in a session they replace those of spark-defaults.conf,
so a program that sets them must repeat the existing entries.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import javaproperties

from kproxy.base.errors import ConfigError
from kproxy.base.process import run_program

JARS, PLUGINS, PACKAGES = "spark.jars", "spark.plugins", "spark.jars.packages"

# A program for spark-submit, which janino runs.
_SHOWN = "kproxy: "
_SHOW = f"""
public final class Show {{
    public static void main(String[] words) {{
        java.util.Iterator names = System.getProperties().stringPropertyNames().iterator();
        while (names.hasNext()) {{
            String name = (String) names.next();
            if (name.startsWith("spark.")) {{
                System.out.println("{_SHOWN}" + name + "=" + System.getProperty(name));
            }}
        }}
    }}
}}
"""


def merge_lists(*lists: str) -> str:
    """Return one list of all entries of comma-separated lists, each once, in their order."""
    merged: dict[str, str] = {}
    for entry in (entry.strip() for text in lists for entry in text.split(",")):
        if entry:
            merged.setdefault(unquote(urlsplit(entry).path) if entry.startswith("file:") else entry, entry)
    return ",".join(merged.values())


def read_properties(file: Path) -> dict[str, str]:
    """Return the settings of a file like spark-defaults.conf, as Spark reads it. Raises ConfigError."""
    try:
        with file.open(encoding="utf-8") as text:
            properties = javaproperties.load(text)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{file}: cannot be read: {why}") from None
    except javaproperties.InvalidUEscapeError:
        raise ConfigError(rf"{file}: has \u without four hexadecimal digits") from None
    return {key: value.strip() for key, value in properties.items() if key.startswith("spark.")}


def submit_settings(properties_file: str | None = None, load_defaults: bool = False) -> dict[str, str]:
    """Return the settings of spark-submit: spark-defaults.conf, or the file in place of it (or, since 4.0, both)."""
    home, directory = spark_home(), os.environ.get("SPARK_CONF_DIR")
    place = Path(directory) if directory else home / "conf" if home else None
    defaults = place / "spark-defaults.conf" if place else None
    settings: dict[str, str] = {}
    if defaults and defaults.is_file() and (properties_file is None or load_defaults):
        settings = read_properties(defaults)
    return settings | (read_properties(Path(properties_file)) if properties_file else {})


def session_settings(packages: Sequence[str] = ()) -> Mapping[str, str]:
    """Return the settings that a session of this process would have, with the jars of `packages`.

    If spark-submit runs this process, or a session existed before, Spark itself returns them, without the jars of
    packages. Raises ConfigError.
    """
    started = "PYSPARK_GATEWAY_PORT" in os.environ
    if started or "pyspark" in sys.modules:
        from pyspark import SparkConf, SparkContext

        if started:
            SparkContext._ensure_initialized()
        if SparkContext._jvm is not None:
            settings = dict(SparkConf().getAll())
            more = _ask_spark_submit(["--packages", merge_lists(*packages)]).get(JARS, "") if packages else ""
            return settings | ({JARS: merge_lists(settings.get(JARS, ""), more)} if more else {})
    options = [option for option in shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "")) if option != "pyspark-shell"]
    if any(option == "--jars" or option.startswith(("--jars=", "spark.jars=")) for option in options):
        raise ConfigError(
            "PYSPARK_SUBMIT_ARGS has jars, which replace those of a session; give them as plugin(jars=[…]) instead"
        )
    defaults = submit_settings()
    if packages:
        options += ["--packages", merge_lists(defaults.get(PACKAGES, ""), *packages)]
    return _ask_spark_submit(options) if options or PACKAGES in defaults else defaults


def _ask_spark_submit(options: Sequence[str]) -> dict[str, str]:
    """Return the settings that spark-submit makes of its options and of the defaults.

    It fetches the jars of spark.jars.packages, and adds them to spark.jars. A session with its own spark.jars would
    lose them.
    """
    home = spark_home()
    if home is None:
        return {}
    with tempfile.TemporaryDirectory(prefix="kproxy-") as directory:
        program = Path(directory, "Show.java")
        program.write_text(_SHOW)
        command = [str(home / "bin" / "spark-submit"), *options, "--master", "local[1]", "--deploy-mode", "client"]
        command += ["--class", "org.codehaus.janino.SimpleCompiler", "spark-internal", str(program), "Show"]
        done = run_program(command, stdin=subprocess.DEVNULL)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "Exception" in line]
        why = (errors or done.stderr.strip().splitlines() or [f"code {done.returncode}"])[0]
        raise ConfigError(f"spark-submit cannot tell the settings that it begins with: {why}")
    lines = [line.removeprefix(_SHOWN) for line in done.stdout.splitlines() if line.startswith(_SHOWN)]
    return dict(line.split("=", 1) for line in lines)


def spark_home() -> Path | None:
    """Return SPARK_HOME, or the home of the installed pyspark."""
    if own := os.environ.get("SPARK_HOME"):
        return Path(own)
    spec = importlib.util.find_spec("pyspark")
    homes = [Path(spec.origin).parent] if spec and spec.origin else []
    homes = [place for home in homes for place in (home / "spark-distribution", home)]  # the first one if it was chosen
    return next((home for home in homes if (home / "jars").is_dir()), None)


def shell_word(setting: str, value: str) -> str:
    """Return `setting=value` as one word for a shell that splits at blanks and ignores quotes, as in `$(…)`.

    Paths with blanks become URIs, which Spark and kproxy's plugin understand. Raises ConfigError for other values with
    blanks.
    """
    parts = value.split(",") if setting == JARS else [value]
    return f"{setting}={','.join(_without_blanks(setting, part) for part in parts)}"


def _without_blanks(setting: str, value: str) -> str:
    if not re.search(r"\s", value):
        return value
    if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:/", value):
        return re.sub(r"\s", lambda blank: quote(blank[0]), value)
    if setting == JARS or os.path.isabs(value):
        return Path(os.path.abspath(value)).as_uri()
    raise ConfigError(f"{setting}: '{value}' has a blank; allowed: an absolute path, a URI, or no blank")
