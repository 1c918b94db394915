"""What spark-defaults.conf has is kept, and what is printed survives the shell."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kproxy.base.errors import ConfigError
from kproxy.spark.defaults import (
    JARS,
    PLUGINS,
    merge_lists,
    read_properties,
    session_settings,
    shell_word,
    spark_home,
    submit_settings,
)

# As Spark's documents write it.
DEFAULTS = """\
# of this site
spark.master            spark://5.6.7.8:7077
spark.jars=/opt/a.jar,\\
    /opt/b.jar
spark.plugins :         com.nvidia.spark.SQLPlugin\t
not.of.spark            1
"""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """SPARK_CONF_DIR, with a spark-defaults.conf."""
    (tmp_path / "spark-defaults.conf").write_text(DEFAULTS)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "nowhere"))
    return tmp_path


def test_lists_are_merged() -> None:
    assert merge_lists("a.jar, b.jar", "", "b.jar", "c.jar,,") == "a.jar,b.jar,c.jar"
    assert merge_lists("", " ") == ""
    assert (
        merge_lists("file:///opt/a%20b.jar,/opt/c.jar", "/opt/a b.jar,file:/opt/c.jar")
        == "file:///opt/a%20b.jar,/opt/c.jar"
    )


def test_a_file_is_read_as_spark_does(directory: Path) -> None:
    assert read_properties(directory / "spark-defaults.conf") == {
        "spark.master": "spark://5.6.7.8:7077",
        JARS: "/opt/a.jar,/opt/b.jar",
        PLUGINS: "com.nvidia.spark.SQLPlugin",
    }


def test_where_the_defaults_are(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert submit_settings() == read_properties(directory / "spark-defaults.conf")
    home = directory / "home"
    (home / "conf").mkdir(parents=True)
    (home / "conf" / "spark-defaults.conf").write_text("spark.jars /of/home.jar\n")
    monkeypatch.setenv("SPARK_HOME", str(home))
    assert submit_settings()[JARS] == "/opt/a.jar,/opt/b.jar"
    monkeypatch.delenv("SPARK_CONF_DIR")
    assert submit_settings() == {JARS: "/of/home.jar"}
    (home / "conf" / "spark-defaults.conf").unlink()
    assert submit_settings() == {}


def test_another_file_in_their_place(directory: Path) -> None:
    other = directory / "job.properties"
    other.write_text("spark.jars=/of/job.jar\n")
    assert submit_settings(str(other)) == {JARS: "/of/job.jar"}
    both = submit_settings(str(other), load_defaults=True)
    assert (both[JARS], both[PLUGINS]) == ("/of/job.jar", "com.nvidia.spark.SQLPlugin")


def test_jars_that_would_replace_those_of_a_session(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert session_settings() == submit_settings()
    for options in ("--jars /opt/a.jar pyspark-shell", "--conf spark.jars=/opt/a.jar pyspark-shell"):
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", options)
        with pytest.raises(ConfigError, match=r"^PYSPARK_SUBMIT_ARGS has jars, which replace .* plugin\(jars=\[…\]\)"):
            session_settings()


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no\.conf: cannot be read: No such file or directory$"):
        read_properties(tmp_path / "no.conf")
    wrong = tmp_path / "wrong.conf"
    wrong.write_bytes(b"spark.jars \xff\n")
    with pytest.raises(ConfigError, match=r"wrong\.conf: cannot be read: it is not UTF-8$"):
        read_properties(wrong)
    wrong.write_text("spark.jars \\u00x\n")
    with pytest.raises(ConfigError, match=r"wrong\.conf: has \\u without four hexadecimal digits$"):
        read_properties(wrong)


def test_words_survive_the_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = [
        shell_word(JARS, "/opt/my jars/*.jar,hdfs://host/my jars/a.jar,b c.jar,/opt/plain.jar"),
        shell_word("spark.kproxy.config", '/home/über user/50% "it\'s" $HOME.yaml'),
        shell_word("spark.kproxy.python", "./env/bin/python"),
    ]
    assert words == [
        "spark.jars=file:///opt/my%20jars/%2A.jar,hdfs://host/my%20jars/a.jar,"
        f"{tmp_path.as_uri()}/b%20c.jar,/opt/plain.jar",
        "spark.kproxy.config=file:///home/%C3%BCber%20user/50%25%20%22it%27s%22%20%24HOME.yaml",
        "spark.kproxy.python=./env/bin/python",
    ]
    (tmp_path / "printed").write_text(" ".join(words))
    said = subprocess.run(
        ["/bin/sh", "-c", r"printf '%s\n' $(cat printed)"], capture_output=True, text=True, check=True, timeout=60
    )
    assert said.stdout.splitlines() == words


def test_a_blank_that_cannot_be_written_otherwise() -> None:
    with pytest.raises(ConfigError, match=r"^spark\.plugins: 'a b' has a blank; allowed: an absolute path, a URI, or"):
        shell_word(PLUGINS, "a b")


def test_where_spark_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert spark_home() == tmp_path
