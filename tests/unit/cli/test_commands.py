"""The commands as a person runs them: output, exit codes, and errors without a traceback."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import click
import pytest

from kproxy import __version__
from kproxy.base import compilation
from kproxy.base.address import Address
from kproxy.base.errors import ConfigError, UpstreamError
from kproxy.base.packages import install_command
from kproxy.cli import group, invoke
from kproxy.config import Config
from kproxy.config.options import all_settings
from kproxy.proxy.app.nextstep import Invocation
from kproxy.proxy.app.reload import ConfigSource
from tests.unit.cli.everycommand import every_command

ROOT = Path(__file__).parents[3]
RUN = ["run", "-b", "kafka"]


@pytest.fixture(autouse=True)
def _own_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


class App(ModuleType):
    """Stands where kproxy.proxy.app.main does, so that a test sees what `run` would start."""

    outcome: int | BaseException = 0

    def __init__(self) -> None:
        super().__init__("kproxy.proxy.app.main")
        self.configs: list[Config] = []
        self.invocations: list[Invocation] = []

    def run(self, config: Config, *, invocation: Invocation, source: ConfigSource) -> int:
        self.configs.append(config)
        self.invocations.append(invocation)
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> App:
    double = App()
    monkeypatch.setitem(sys.modules, "kproxy.proxy.app.main", double)
    return double


def kproxy(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The real command, in its own process."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("KPROXY_")}
    command = [sys.executable, "-m", "kproxy", *arguments]
    return subprocess.run(command, env={**own, **env}, capture_output=True, text=True, timeout=60, check=False)


def test_run_starts_the_app_with_the_configuration(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("k.yaml").write_text("bootstrap-servers: file\nlisten: 127.0.0.1:1000\nlog-level: error\n")
    monkeypatch.setenv("KPROXY_LISTEN", "127.0.0.1:2000")
    flags = ["-b", "a:1,b", "-b", "c", "--map", "a=b", "--map", "c=d", "--no-admin", "--ready-requires", "none"]
    assert invoke(["run", "-c", "k.yaml", *flags]) == 0
    config = app.configs[0]
    assert [str(server) for server in config.clusters[0].bootstrap_servers] == ["a:1", "b:9092", "c:9092"]
    assert [str(route) for route in config.clusters[0].map] == ["a=b", "c=d"]
    assert config.clusters[0].listen == Address("127.0.0.1", 2000)
    assert (config.admin, config.ready_requires, config.log_level) == (None, "none", "error")


@pytest.mark.parametrize(
    ("words", "servers"),
    [
        (["a:1"], ["a:1"]),
        (["a:1,b", "c:2"], ["a:1", "b:9092", "c:2"]),
        (["--no-tls", "a:1", "--admin", "off", "[::1]:2"], ["a:1", "[::1]:2"]),
        (["@staging", "a:1"], ["a:1"]),
        (["@staging"], ["profile:9092"]),
        (["-c", "k.yaml", "a:1"], ["a:1"]),
    ],
)
def test_the_bootstrap_servers_are_words_as_well(
    words: list[str], servers: list[str], app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `kproxy doctor` and `kproxy ls` take them; they override the variable, the file and the profile."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("KPROXY_BOOTSTRAP_SERVERS", "" if "@staging" in words else "variable")
    (tmp_path / "kproxy").mkdir()
    (tmp_path / "kproxy" / "staging.yaml").write_text("bootstrap-servers: profile\n")
    Path("k.yaml").write_text("bootstrap-servers: file\n")
    assert invoke(["run", *words]) == 0
    assert [str(server) for server in app.configs[0].clusters[0].bootstrap_servers] == servers
    assert invoke(["config", "show", *words]) == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("kproxy.yaml", "kproxy.yaml is a file; to read it: -c kproxy.yaml"),
        ("client.properties", "client.properties is a file; to read it: --client-config client.properties"),
        ("staging", "staging is a profile; to use it: @staging"),
        ("gone.yaml", ""),
        ("kafka.d", ""),
        (f"{'a.' * 200}yaml", ""),
        ("kafka", ""),
    ],
)
def test_a_file_or_a_profile_is_no_server(
    words: str, says: str, app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "kproxy").mkdir()
    for name in ("kproxy/staging.yaml", "kproxy.yaml", "client.properties", "kafka.d", "kafka"):
        (tmp_path / name).touch()
    code = invoke(["run", words])
    err = capsys.readouterr().err
    assert (code, err) == ((2, f"kproxy: {says} (see 'kproxy run --help')\n") if says else (0, ""))


@pytest.mark.parametrize(
    ("words", "servers", "command"),
    [
        ("a:1 -- x y", "a:1", "x y"),
        ("a:1 x y", "a:1", "x y"),
        ("a:1,b:2 c:3 --tls -- x", "a:1,b:2 c:3", "x"),
        ("--tls a:1 --admin off b:2 -- x -- y", "a:1 b:2", "x -- y"),
        ("@staging a:1 -- x", "a:1", "x"),
        ("@staging -- x", "", "x"),
        ("-b a:1 x b:2", "", "x b:2"),
        ("-b a:1 -- b:2 x", "", "b:2 x"),
        ("-b a:1 run.sh", "", "run.sh"),  # a port is required
        ("-b a:1 run.sh -- x", "", "run.sh -- x"),
        ("a:1 run.sh b:2", "a:1", "run.sh b:2"),
    ],
)
def test_exec_takes_servers_before_its_command(
    words: str, servers: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "kproxy").mkdir()
    (tmp_path / "kproxy" / "staging.yaml").write_text("bootstrap-servers: profile\n")
    exec_ = group.kproxy.get_command(click.Context(group.kproxy), "exec")
    assert exec_ is not None
    context = exec_.make_context("exec", words.split(), parent=click.Context(group.kproxy))
    assert (" ".join(context.params["servers"]), " ".join(context.params["command"])) == (servers, command)


def test_the_app_is_told_the_command_line_without_secrets(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """To say it again, to somebody whose brokers cannot be reached."""
    monkeypatch.setenv("KPROXY_SASL_PASSWORD", "hunter2")
    Path("k.yaml").write_text("bootstrap-servers: file\n")
    reach = ["-c", "k.yaml", "-b", "a", "-b", "b", "--via", "http://u:%s@p:1", "--connect-timeout", "2s", "--no-tls",
             "--sasl", "PLAIN", "--sasl-username", "me"]  # fmt: skip
    local = ["--listen", "127.0.0.1:0", "--admin", "off"]
    assert invoke(["run", *[word.replace("%s", "hunter2") for word in reach], "--map", "a=b", *local]) == 0
    said = [{"me": "USER"}.get(word, word).replace("%s", "***") for word in reach]  # it goes into the log
    assert sorted(app.invocations[0].run_arguments) == sorted([*said, *local])
    assert sorted(app.invocations[0].connection_arguments) == sorted([*said, "--map", "a=b"])


# What Python lacks on Windows, of all that kproxy imports.
_WINDOWS = """
import importlib.abc, os, signal, sys
for name in "SIGHUP SIGQUIT SIGUSR1 SIGUSR2 SIGTSTP SIGCONT SIGTTOU SIGTTIN SIGCHLD SIGKILL".split():
    if hasattr(signal, name):
        delattr(signal, name)
for name in ("fcntl", "resource", "termios", "pwd", "grp", "pty", "tty"):
    sys.modules[name] = None
import click, asyncio, subprocess, http.client, rich.console, sysconfig  # that know where they are
sysconfig.get_config_vars()
sys.platform = "win32"
from kproxy.cli import invoke
sys.exit(invoke(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "arguments",
    [["run", "-b", "a"], ["exec", "-b", "a", "--", "x"], ["up", "@a"], ["down", "@a"], ["list"], ["doctor", "a"],
     ["demo"], ["devcluster"]],
    ids=lambda words: words[0],
)  # fmt: skip
def test_what_does_not_run_on_windows_says_so(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", _WINDOWS, *arguments], capture_output=True, text=True, check=False)
    name = arguments[0]
    expected = f"kproxy: {name} needs Linux or macOS; on Windows, use kproxy in WSL (see 'kproxy {name} --help')"
    assert (done.returncode, done.stderr.strip()) == (2, expected)


def test_what_runs_on_windows(tmp_path: Path) -> None:
    """As far as it can be seen on another system."""
    file, said = tmp_path / "k.yaml", tmp_path / "said"
    file.write_text("bootstrap-servers: a\n")
    said.write_text("Connection to node -1 (kafka:9092) could not be established. Broker may not be available.\n")
    for words in (
        ["--version"],
        ["run", "--help"],
        ["config", "check", str(file)],
        ["explain", str(said)],
        ["lint", "--as", "client", str(file)],
    ):
        done = subprocess.run([sys.executable, "-c", _WINDOWS, *words], capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1), done.stderr
        assert "Traceback" not in done.stderr
        assert "defect" not in done.stderr


def test_every_option_is_a_flag(app: App) -> None:
    values = {
        "name": "x", "bootstrap-servers": "a:1", "cluster-id": "c", "listen": "127.0.0.1:1000", "advertise": "p:2000",
        "node-ports": "3000-3001", "map": "a=b", "via": "ssh://c", "connect-timeout": "1s", "retire-after": "2s",
        "max-connections": "3", "max-request-size": "4KiB", "admin": "127.0.0.1:5000", "drain-timeout": "6s",
        "reuse-port": None, "admin-host": "kproxy.example", "admin-quit": None, "admin-token-file": "t",
        "admin-require-token-for-reads": None, "admin-reload": None, "watch-config": None, "state-dir": "states",
        "exit-with": "ended",
        "log-format": "json", "log-level": "warning", "ready-requires": "none",
        "forward": "8081=registry:8081",
        "read-only": None, "allow-groups": "dev-*", "rules": "allow produce orders-*",
        "tls": None, "tls-ca": "ca.pem", "tls-cert": "me.pem", "tls-key": "me.key", "tls-server-name": "kafka",
        "client-tls-cert": "kproxy.pem", "client-tls-key": "kproxy.key", "client-tls-ca": "clients.pem",
        "sasl": "OAUTHBEARER", "sasl-username": "u", "oauth-scope": "s", "oauth-ca": "c", "oauth-extensions": "a=b",
        "oauth-token-file": "t", "kerberos-service": "k",
        "client-sasl": "OAUTHBEARER", "users-file": "users.yaml", "client-login-lifetime": "1h",
        "client-plain-without-tls": None, "client-oauth-jwks-file": "keys.json", "client-oauth-issuer": "i",
        "client-oauth-audience": "a", "client-oauth-user-claim": "sub",
        "login-as": "user", "credentials-command": "vault {user}", "credentials-lifetime": "5m",
        "default-login": "guest",
        "admin-tls-cert": "admin.pem", "admin-tls-key": "admin.key",
    }  # fmt: skip
    # These exclude others.
    several = {"accept-new-cluster-after", "client-oauth-jwks-url", "client-oauth-ca", "client-tls-principal-rules",
               "sni", "tls-insecure", "client-config", "sasl-password-file", "sasl-password-command", "oauth-token-url",
               "oauth-token-command",
               "kerberos-keytab", "aws-profile", "forward-command"}  # fmt: skip
    declared = [setting for setting in all_settings() if setting.flag and setting.key not in several]
    assert set(values) == {setting.key for setting in declared}
    flags = [part for key, value in values.items() for part in (f"--{key}", value) if part is not None]
    assert invoke(["run", *flags]) == 0
    shown = {
        setting.key: setting.kind.show(
            value[0] if setting.repeatable else value  # one item each
        )
        for setting in declared
        for value in [getattr(app.configs[0].clusters[0] if setting.in_cluster else app.configs[0], setting.name)]
    }
    given = {"max-connections": 3, "tls": True}
    switches = (
        "admin-quit",
        "admin-require-token-for-reads",
        "admin-reload",
        "watch-config",
        "reuse-port",
        "read-only",
        "client-plain-without-tls",
    )
    given |= dict.fromkeys(switches, True)
    assert shown == values | given


def test_a_flag_that_was_removed_says_what_to_write_instead(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke([*RUN, "--workers", "4"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("kproxy: --workers was removed; allowed: several kproxies with reuse-port, see docs/")


@pytest.mark.parametrize("code", [0, 1, 7])
def test_the_exit_code_is_the_app_s(app: App, code: int) -> None:
    app.outcome = code
    assert invoke(RUN) == code


@pytest.mark.parametrize(
    ("error", "code", "stderr"),
    [
        (UpstreamError("refused", "kafka:9092 refuses"), 1, "kproxy: kafka:9092 refuses\n"),
        (ConfigError("one", "two"), 2, "kproxy: one\nkproxy: two\n"),
        (OSError(98, "Address already in use"), 1, "kproxy: Address already in use\n"),
        (FileNotFoundError(2, "No such file", "x.pem"), 1, "kproxy: x.pem: No such file\n"),
        (
            ExceptionGroup("two", [UpstreamError("other", "a"), ExceptionGroup("one", [OSError(1, "b")])]),
            1,
            "kproxy: a\nkproxy: b\n",
        ),
        (ExceptionGroup("a", [ExceptionGroup("b", [ConfigError("one", "two")])]), 2, "kproxy: one\nkproxy: two\n"),
        (ExceptionGroup("a", [ConfigError("one"), OSError(1, "b")]), 1, "kproxy: one\nkproxy: b\n"),
        (
            ModuleNotFoundError("No module named 'cramjam'", name="cramjam"),
            1,
            "kproxy: this needs packages that are not installed (cramjam, crc32c and xxhash):"
            f" {install_command('cramjam crc32c xxhash')}\n",
        ),
        (
            ModuleNotFoundError("No module named 'kproxy.x'", name="kproxy.x"),
            1,
            "kproxy: ModuleNotFoundError: No module named 'kproxy.x'; this is a defect of kproxy (KPROXY_DEBUG=1 shows"
            " where)\n",
        ),
        (
            ValueError("odd\nthing"),
            1,
            "kproxy: ValueError: odd thing; this is a defect of kproxy (KPROXY_DEBUG=1 shows where)\n",
        ),
    ],
)
def test_errors_are_lines(
    app: App, error: Exception, code: int, stderr: str, capsys: pytest.CaptureFixture[str]
) -> None:
    app.outcome = error
    assert invoke(RUN) == code
    assert capsys.readouterr() == ("", stderr)


def test_ctrl_c_ends_with_130(app: App, capsys: pytest.CaptureFixture[str]) -> None:
    app.outcome = KeyboardInterrupt()
    assert invoke(RUN) == 130
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(("variable", "flags"), [("1", []), ("", ["--log-level", "debug"])])
def test_the_traceback_of_a_defect_is_there_for_those_who_ask(
    app: App, variable: str, flags: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KPROXY_DEBUG", variable)
    app.outcome = ZeroDivisionError("x")
    assert invoke([*RUN, *flags]) == 1
    stderr = capsys.readouterr().err
    assert stderr.startswith("Traceback (most recent call last)")
    assert "this is a defect of kproxy" in stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["run"], "no bootstrap server is given; allowed: -b HOST:PORT, KPROXY_BOOTSTRAP_SERVERS, "
                  "or bootstrap-servers in a file (-c FILE)"),
        (["run", "--lisen", "x"], "no such option '--lisen'…(see 'kproxy run --help')"),
        (["run", "kafka:9092", "-b", "kafka"],
         "the bootstrap servers are given twice: HOST:PORT and -b (see 'kproxy run --help')"),
        (["exec", "kafka:9092", "-b", "kafka", "--", "x"],
         "the bootstrap servers are given twice: HOST:PORT and -b (see 'kproxy exec --help')"),
        (["doctor", "kafka:9092", "-b", "kafka"],
         "the bootstrap servers are given twice: HOST:PORT and -b (see 'kproxy doctor --help')"),
        (["exec", "kafka:9092"], "missing argument '[HOST:PORT[,...]] [--] COMMAND...' (see 'kproxy exec --help')"),
        (["exec", "kafka:9092", "--"],
         "missing argument '[HOST:PORT[,...]] [--] COMMAND...' (see 'kproxy exec --help')"),
        (["run", "--tls", "@staging"],
         "@staging: a profile must be the first word, before all options (see 'kproxy run --help')"),
        (["run", "-b"], "option '-b' requires an argument (see 'kproxy run --help')"),
        (["tap", "--client"], "option '--client' requires an argument (see 'kproxy tap --help')"),
        (["users", "add", "--file"], "no such option '--file' (see 'kproxy users add --help')"),
        (["migrate", "switch", "--wave"], "option '--wave' requires an argument (see 'kproxy migrate switch --help')"),
        (["rum"], "no such command 'rum'…(see 'kproxy --help')"),
        (["-b", "x"], "no such option '-b'…(see 'kproxy --help')"),
        (["help", "rum"], "no such command 'rum'…(see 'kproxy --help')"),
        (["help", "kafka:9092"], "no such command 'kafka:9092'…(see 'kproxy --help')"),
        (["help", "config", "chek"], "no such command 'chek'…(see 'kproxy config --help')"),
        (["help", "run", "x"], "'kproxy run' has no commands of its own (see 'kproxy run --help')"),
        (["config", "chek"], "no such command 'chek'…(see 'kproxy config --help')"),
        (["migrate", "swich"], "no such command 'swich'. Did you mean 'switch'? (see 'kproxy migrate --help')"),
        (["config", "check"], "missing argument 'FILE' (see 'kproxy config check --help')"),
        (["run", "--admin", "h:1", "--no-admin"],
         "--admin is given together with the flag that turns it off (see 'kproxy run --help')"),
        (["config", "check", "gone.yaml"], "gone.yaml: does not exist; allowed: a readable YAML file"),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_line_and_2(arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(arguments) == 2
    out, err = capsys.readouterr()
    # What click adds at … differs between its versions.
    begin, _, end = line.partition("…")
    assert (out, err.count("\n")) == ("", 1)
    assert err == f"kproxy: {line}\n" if not end else err.startswith(f"kproxy: {begin}") and err.endswith(f"{end}\n")


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["--help"]) == 0
    text = capsys.readouterr().out
    assert text.index("kproxy run kafka.example:9092") < text.index("Options:")
    for command in ("run", "demo", "config"):
        assert f"\n  {command} " in text
    assert "..." not in text.partition("Commands:")[2]  # no sentence is cut


@pytest.mark.parametrize("name", ["config", "migrate"])
def test_a_group_alone_shows_its_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke([name]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"Usage: kproxy {name} [OPTIONS]")
    assert "\nCommands:\n" in out
    assert err == ""


def test_help_of_run_groups_all_options_after_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["run", "--help"]) == 0
    text = capsys.readouterr().out
    assert text.index("kproxy run kafka.example:9092") < text.index("Options:")
    for setting in all_settings():
        heading, flag = f"\n{setting.group}:\n", f" {setting.flag}"
        assert text.count(heading) == 1
        assert flag in text.partition(heading)[2].partition("\n\n")[0]
    words = " ".join(text.split())
    for setting in all_settings():
        expected = "[required" if setting.required else f"[default: {setting.default_text}"
        assert expected in words


@pytest.mark.parametrize("word", ["--version", "-V", "version"])
def test_version(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke([word]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == (f"kproxy {__version__} ({compilation.data_plane_kind()})\n", "")


@pytest.mark.parametrize("words", ["", "run", "exec", "ls", "explain", "config", "config show", "migrate plan", "help"])
def test_help_is_a_command_too(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke([*words.split(), "--help"]) == 0
    expected = capsys.readouterr().out
    assert expected.startswith(f"Usage: {' '.join(['kproxy', *words.split()])} ")
    assert invoke(["help", *words.split()]) == 0
    assert capsys.readouterr().out == expected


def test_each_command_is_where_it_is_looked_for() -> None:
    context = click.Context(group.kproxy)
    for name in group.MODULES:
        assert group.kproxy.get_command(context, name) is not None, name
    assert group.kproxy.list_commands(context) == sorted(group.kproxy.commands)


def test_a_command_loads_no_other() -> None:
    program = (
        "import sys; from kproxy.cli import invoke\n"
        "invoke(['run', '--help'])\n"
        "sys.exit(' '.join(name for name in sys.modules if name.startswith('kproxy.cli.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert {name.removeprefix("kproxy.cli.") for name in done.stderr.split()} == {
        "completion",
        "flags",
        "group",
        "run",
    }


def test_what_only_prints_loads_little() -> None:
    program = (
        "import sys; from kproxy.cli import invoke\n"
        "code = invoke(sys.argv[1:])\n"
        "heavy = {'asyncio', 'prometheus_client', 'rich', 'yaml', 'kproxy.proxy.app.main'}\n"
        "heavy &= set(sys.modules)\n"
        "sys.exit(f'{code} {heavy}' if code or heavy else 0)"
    )
    for arguments in (["--version"], ["--help"], []):
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_config_check_of_a_good_file() -> None:
    done = kproxy("config", "check", str(ROOT / "config" / "two-clusters.yaml"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "ok: 2 clusters (orders, billing), 3 bootstrap servers\n"


def test_config_check_reports_all_mistakes_without_a_traceback() -> None:
    Path("k.yaml").write_text("bootstrap-server: a\nlisten: here\nadmin: [1]\n")
    done = kproxy("config", "check", "k.yaml", KPROXY_LISTN="x")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines() == [
        "k.yaml:1: error: bootstrap-server: no such key; did you mean bootstrap-servers?",
        "k.yaml:2: error: listen: 'here' has no port: write HOST:PORT",
        "k.yaml:3: error: admin: is a list; allowed: HOST:PORT, or off",
        "KPROXY_LISTN: error: no such variable; did you mean KPROXY_LISTEN?",
    ]


def test_config_check_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    Path("k.yaml").write_text("bootstrap-servers: a\nlisten: here\n")
    assert invoke(["config", "check", "--format", "json", "k.yaml"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["severity"], finding["subject"], finding["place"]["line"]) == ("error", "listen", 2)
    assert invoke(["config", "check", "--format", "github", "k.yaml"]) == 1
    assert capsys.readouterr().out.startswith("::error file=k.yaml,line=2,title=listen::'here' has no port")
    Path("k.yaml").write_text("bootstrap-servers: a\n")
    assert invoke(["config", "check", "--format", "json", "k.yaml"]) == 0
    assert json.loads(capsys.readouterr().out) == {"findings": []}


def test_config_show_can_be_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["config", "show", "-b", "a", "--listen", "[::1]:0"]) == 0
    shown = capsys.readouterr().out
    assert '    listen: "[::1]:0"  # --listen\n' in shown
    Path("shown.yaml").write_text(shown)
    assert invoke(["config", "check", "shown.yaml"]) == 0
    assert capsys.readouterr().out == "ok: 1 cluster (default), 1 bootstrap server\n"


def test_config_schema_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["config", "schema"]) == 0
    assert "bootstrap-servers" in json.loads(capsys.readouterr().out)["properties"]


def test_a_reader_that_goes_away_is_no_defect() -> None:
    command = [sys.executable, "-m", "kproxy", "config", "schema"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(60) == 1


def test_demo_passes_once_on(monkeypatch: pytest.MonkeyPatch) -> None:
    double = ModuleType("kproxy.dev.demo.story")
    seen: list[bool] = []

    def run_demo(*, once: bool) -> int:
        seen.append(once)
        return 3

    double.run_demo = run_demo  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "kproxy.dev.devcluster", ModuleType("kproxy.dev.devcluster"))
    monkeypatch.setitem(sys.modules, "kproxy.dev.demo.story", double)
    assert [invoke(["demo", "--once"]), invoke(["demo"])] == [3, 3]
    assert seen == [True, False]


def test_a_real_ctrl_c_shows_no_traceback() -> None:
    program = (
        "import os, signal, sys, types, kproxy.cli\n"
        "app = sys.modules['kproxy.proxy.app.main'] = types.ModuleType('kproxy.proxy.app.main')\n"
        f"app.run = lambda config, invocation, source: os.kill(os.getpid(), {int(signal.SIGINT)})\n"
        "sys.argv[1:] = ['run', '-b', 'a']\n"
        "kproxy.cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 130
    assert done.stderr.strip() == ""


def test_ctrl_c_while_kproxy_is_loaded_shows_no_traceback(tmp_path: Path) -> None:
    """Importing takes the most of a start: an importer sends the signal in the middle of it."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'kproxy.cli.group':\n"
        f"            os.kill(os.getpid(), {int(signal.SIGINT)})\n"
        "sys.meta_path.insert(0, Interrupt())\n"
    )
    done = kproxy("version", PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("names", list(every_command()), ids=" ".join)
def test_the_help_of_every_command_fits_80_columns(
    names: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is wrapped; an example is not, so that it can be copied."""
    monkeypatch.setenv("COLUMNS", "80")
    assert invoke([*names, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Usage: kproxy")
    assert [line for line in lines if len(line) > 80 and not line.startswith("    kproxy ")] == []


def test_options_of_commands_come_from_the_declaration_alone() -> None:
    """No command writes an option twice: but for -c, --help and a few of its own, all are declared."""
    from kproxy.cli.flags import ConfiguredOption
    from kproxy.cli.run import run

    context = click.Context(run)
    # The longest name of each: click remembers the help option of whoever asked first, with -h or without.
    own = [p.opts[-1] for p in run.get_params(context) if not isinstance(p, ConfiguredOption)]
    assert own == ["--config", "servers", "--help"]


def test_a_secret_is_no_flag() -> None:
    """And the error does not repeat it."""
    for key, variable in (("sasl-password", "KPROXY_SASL_PASSWORD"), ("admin-token", "KPROXY_ADMIN_TOKEN")):
        for words in ([f"--{key}=hunter2"], [f"--{key}", "hunter2"]):
            done = kproxy("run", "-b", "a:1", *words)
            assert done.returncode == 2
            assert done.stdout + done.stderr == (
                f"kproxy: --{key} is not a flag, because other users can read a command line; allowed: {variable},"
                f" or {key} in a file (-c FILE) (see 'kproxy run --help')\n"
            )


def test_the_demo_says_what_it_needs_before_it_starts_anything(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In its help, and in one line with the command that installs it."""
    from kproxy.dev.demo import story

    assert invoke(["demo", "--help"]) == 0
    assert "Java 17, Maven and the Python package confluent-kafka" in " ".join(capsys.readouterr().out.split())
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if "confluent" in name else find_spec(name))
    monkeypatch.setattr(story.jars, "check_requirements", lambda: None)
    assert invoke(["demo"]) == 2
    assert capsys.readouterr().err == (
        f"kproxy: the demo needs the client confluent-kafka: {install_command('confluent-kafka')}\n"
    )
