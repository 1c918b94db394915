"""The settings that Spark has before kproxy adds to them, and how to add to a list of them.

`spark.jars` and `spark.plugins` are lists. On a command line or in a session they replace those of spark-defaults.conf,
so whoever sets them must repeat what stands there.
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
    """One list of all that stands in several, separated by commas; each once, in the order in which they come."""
    found: dict[str, str] = {}
    for one in (one.strip() for text in lists for one in text.split(",")):
        if one:
            found.setdefault(unquote(urlsplit(one).path) if one.startswith("file:") else one, one)
    return ",".join(found.values())


def read_properties(file: Path) -> dict[str, str]:
    """The settings in a file as spark-defaults.conf, as Spark reads it. Raises ConfigError."""
    try:
        with file.open(encoding="utf-8") as text:
            found = javaproperties.load(text)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{file}: cannot be read: {why}") from None
    except javaproperties.InvalidUEscapeError:
        raise ConfigError(rf"{file}: has \u without four hexadecimal digits") from None
    return {key: value.strip() for key, value in found.items() if key.startswith("spark.")}


def submit_settings(properties_file: str | None = None, load_defaults: bool = False) -> dict[str, str]:
    """What spark-submit begins with: spark-defaults.conf, or the file in place of it (or, since 4.0, both)."""
    home, directory = spark_home(), os.environ.get("SPARK_CONF_DIR")
    place = Path(directory) if directory else home / "conf" if home else None
    defaults = place / "spark-defaults.conf" if place else None
    found: dict[str, str] = {}
    if defaults and defaults.is_file() and (properties_file is None or load_defaults):
        found = read_properties(defaults)
    return found | (read_properties(Path(properties_file)) if properties_file else {})


def session_settings(packages: Sequence[str] = ()) -> Mapping[str, str]:
    """What a session of this process would have, with the jars of `packages` beside those of the defaults. Where
    spark-submit runs this process, or a session was here before, Spark itself says it, but for the packages' jars.
    Raises ConfigError."""
    started = "PYSPARK_GATEWAY_PORT" in os.environ
    if started or "pyspark" in sys.modules:
        from pyspark import SparkConf, SparkContext

        if started:
            SparkContext._ensure_initialized()
        if SparkContext._jvm is not None:
            found = dict(SparkConf().getAll())
            more = _asked(["--packages", merge_lists(*packages)]).get(JARS, "") if packages else ""
            return found | ({JARS: merge_lists(found.get(JARS, ""), more)} if more else {})
    options = [one for one in shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "")) if one != "pyspark-shell"]
    if any(one == "--jars" or one.startswith(("--jars=", "spark.jars=")) for one in options):
        raise ConfigError(
            "PYSPARK_SUBMIT_ARGS has jars, which replace those of a session; give them as plugin(jars=[…]) instead"
        )
    before = submit_settings()
    if packages:
        options += ["--packages", merge_lists(before.get(PACKAGES, ""), *packages)]
    return _asked(options) if options or PACKAGES in before else before


def _asked(options: Sequence[str]) -> dict[str, str]:
    """What spark-submit makes of its options and of the defaults. It fetches the jars of spark.jars.packages, and adds
    them to spark.jars; a session that has a spark.jars of its own would lose them again."""
    home = spark_home()
    if home is None:
        return {}
    with tempfile.TemporaryDirectory(prefix="kproxy-") as directory:
        program = Path(directory, "Show.java")
        program.write_text(_SHOW)
        command = [str(home / "bin" / "spark-submit"), *options, "--master", "local[1]", "--deploy-mode", "client"]
        command += ["--class", "org.codehaus.janino.SimpleCompiler", "spark-internal", str(program), "Show"]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
        )
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "Exception" in line]
        why = (errors or done.stderr.strip().splitlines() or [f"code {done.returncode}"])[0]
        raise ConfigError(f"spark-submit cannot tell the settings that it begins with: {why}")
    lines = [line.removeprefix(_SHOWN) for line in done.stdout.splitlines() if line.startswith(_SHOWN)]
    return dict(line.split("=", 1) for line in lines)


def spark_home() -> Path | None:
    """SPARK_HOME, else that of the installed pyspark."""
    if own := os.environ.get("SPARK_HOME"):
        return Path(own)
    found = importlib.util.find_spec("pyspark")
    homes = [Path(found.origin).parent] if found and found.origin else []
    homes = [place for home in homes for place in (home / "spark-distribution", home)]  # the first one if it was chosen
    return next((home for home in homes if (home / "jars").is_dir()), None)


def shell_word(setting: str, value: str) -> str:
    """`setting=value` as one word for a shell that divides at blanks and does not heed quotes, as with `$(…)`.

    Paths with blanks are written as URIs, which Spark and kproxy's plugin understand. Raises ConfigError for other
    values with blanks.
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
