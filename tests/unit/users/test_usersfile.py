"""The users file: its text, each mistake with its line and without its value, who may read it, and changes of it."""

from __future__ import annotations

import gc
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.base.errors import ConfigError
from kproxy.users.document import read_document
from kproxy.users.usersfile import UsersFile, read_users_file
from kproxy.users.verifier import ScramVerifier

VERIFIER = ScramVerifier.from_password("SCRAM-SHA-512", "pencil")
SECRET = "s3cret-of-these-tests"
TEXT = f"""\
# Our users.
users:
  alice:
    SCRAM-SHA-512: {VERIFIER.text()}
    logins:
      green: {{username: sa-4711, password: "{SECRET}", mechanism: PLAIN}}
      blue:
        token: {SECRET}
  "bob, of ops": {{}}
"""


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    """Write it as one should: beside it first, then in its place."""
    beside = path.with_name("beside")
    beside.write_text(text)
    beside.chmod(mode)
    beside.rename(path)
    return path


def test_users_and_their_logins(tmp_path: Path) -> None:
    document = read_users_file(written(tmp_path / "users.yaml", TEXT))
    alice, bob = document.users["alice"], document.users["bob, of ops"]
    assert alice.verifiers == {"SCRAM-SHA-512": VERIFIER}
    green, blue = alice.logins["green"], alice.logins["blue"]
    assert (green.username, green.password, green.token, green.mechanism) == ("sa-4711", SECRET, None, "PLAIN")
    assert (blue.username, blue.password, blue.token, blue.mechanism) == ("", None, SECRET, None)
    assert (bob.verifiers, bob.logins) == ({}, {})
    assert SECRET not in f"{alice!r} {green!r} {green}"
    lines = TEXT.splitlines()
    assert {name: lines[start:end] for name, (start, end) in document.blocks.items()} == {
        "alice": lines[2:8],
        "bob, of ops": lines[8:],
    }


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "users:\n", "users: {}\n", "users: ~\n"])
def test_a_file_without_users(text: str) -> None:
    document = read_document(text, "u")
    assert (document.users, document.problems) == ({}, [])


LOGIN = "users:\n  a:\n    logins:\n      green: "
QUOTES = " (text that begins with one of * & ! # % @ ` must be in quotes)"
LOGIN_KEYS = "username and password, or token; and mechanism"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- a\n", "u:1: is not a mapping; allowed: users: {NAME: …}"),
        (SECRET, "u:1: is not a mapping; allowed: users: {NAME: …}"),
        (f"user: {SECRET}\n", "u:1: has an unknown key; allowed: users"),
        ("users: [a]\n", "u:1: users: is a list, not a mapping; allowed: NAME: …"),
        ("users:\n  a: x\n", "u:2: users.a: is text, not a mapping; allowed: SCRAM-SHA-256, SCRAM-SHA-512, logins"),
        ("users:\n  a:\n", "u:2: users.a: is no value, not a mapping; allowed: SCRAM-SHA-256, SCRAM-SHA-512, logins"),
        ("users:\n  a: {}\n  a: {}\n", "u:3: users.a: is given twice; allowed: once"),
        ('users:\n  "": {}\n', "u:2: users.: is no name of a user; allowed: 1 to 255 printable characters"),
        ('users:\n  "a\\e": {}\n', "u:2: users.a\\x1b: is no name of a user; allowed: 1 to 255 printable characters"),
        ("users:\n  ? [x]\n  : {}\n", "u:2: users: has a list in place of a key; allowed: text"),
        (f"users:\n  a:\n    password: {SECRET}\n",
         "u:3: users.a: has an unknown key; allowed: SCRAM-SHA-256, SCRAM-SHA-512, logins"),
        (f"users:\n  a:\n    SCRAM-SHA-256: {SECRET}\n",
         "u:3: users.a.SCRAM-SHA-256: has other fields; allowed: "
         "salt=BASE64,stored_key=BASE64,server_key=BASE64,iterations=NUMBER"),
        (f"{LOGIN}{SECRET}\n",
         "u:4: users.a.logins.green: is text, not a mapping; allowed: username, password, token, mechanism"),
        (f"{LOGIN}{{username: x, pass: {SECRET}}}\n",
         "u:4: users.a.logins.green: has an unknown key; allowed: username, password, token, mechanism"),
        (f"{LOGIN}{{username: x}}\n",
         f"u:4: users.a.logins.green: needs either a password or a token; allowed: {LOGIN_KEYS}"),
        (f"{LOGIN}{{password: {SECRET}, token: {SECRET}}}\n",
         f"u:4: users.a.logins.green: needs either a password or a token; allowed: {LOGIN_KEYS}"),
        (f"{LOGIN}{{password: {SECRET}}}\n", f"u:4: users.a.logins.green: has no username; allowed: {LOGIN_KEYS}"),
        (f"{LOGIN}{{token: {SECRET}, mechanism: PLAIN}}\n",
         "u:4: users.a.logins.green: has a token, which is not for PLAIN"),
        (f"{LOGIN}{{token: {SECRET}, mechanism: GSSAPI}}\n",
         "u:4: users.a.logins.green: has an unknown mechanism; allowed: "
         "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"),
        (f"{LOGIN}{{username: x, password: #{SECRET}\n}}\n",
         f"u:4: users.a.logins.green.password: is no value; allowed: text{QUOTES}"),
        (f"{LOGIN}{{username: x, password: *{SECRET}}}\n",
         f"u:4: users.a.logins.green.password: is an alias; allowed: text{QUOTES}"),
        (f"{LOGIN}{{username: x, password: [{SECRET}]}}\n",
         f"u:4: users.a.logins.green.password: is a list; allowed: text{QUOTES}"),
        (f"{LOGIN}{{token: {'x' * 70000}}}\n", "u:4: users.a.logins.green.token: is longer than 65536 characters"),
        (f'{LOGIN}{{username: x, password: "{SECRET}\\0"}}\n',
         "u:4: users.a.logins.green: has a character that no login may have"),
    ],
)  # fmt: skip
def test_a_mistake_has_its_line_and_no_secret(text: str, problem: str) -> None:
    document = read_document(text, "u")
    assert [str(mistake) for mistake in document.problems] == [problem]
    assert SECRET not in problem


@pytest.mark.parametrize(
    "text",
    [f"{LOGIN}{{password: !{SECRET}!x y}}", f"{LOGIN}{{password: '{SECRET}", f"{LOGIN}@{SECRET}", "users: {" * 70],
)
def test_what_is_not_yaml_shows_no_secret(text: str) -> None:
    problems = read_document(text, "u").problems
    assert problems
    assert SECRET not in "".join(map(str, problems))


def test_the_number_of_problems_is_bounded() -> None:
    assert len(read_document("users:\n" + "".join(f"  u{n}: x\n" for n in range(5000)), "u").problems) == 100


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620])
def test_other_users_must_not_read_it(tmp_path: Path, mode: int) -> None:
    path = written(tmp_path / "users.yaml", TEXT, mode)
    with pytest.raises(ConfigError) as caught:
        UsersFile(path)
    assert str(caught.value) == f"{path} is open to other users (mode {mode:04o}): chmod 600 {path}"


def test_what_is_no_file(tmp_path: Path) -> None:
    path = tmp_path / "users.yaml"
    with pytest.raises(ConfigError, match=r"users\.yaml: does not exist; allowed: a users file"):
        UsersFile(path)
    os.mkfifo(path, 0o600)
    with pytest.raises(ConfigError, match=r"users\.yaml: is not a regular file"):
        UsersFile(path)
    path.unlink()
    path.write_bytes(b"users:\n  \xff: {}\n")
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=r"users\.yaml: is not UTF-8 text \(byte 10\)"):
        UsersFile(path)


class Logged(logging.Handler):
    """The lines of the room's log, for a test that waits for them."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.came = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        with self.came:
            self.lines.append(record.getMessage())
            self.came.notify_all()

    def wait(self, part: str) -> str:
        """Return the first line with this in it, and forget the lines until it."""
        with self.came:
            assert self.came.wait_for(lambda: any(part in line for line in self.lines), 60), self.lines
            line = next(line for line in self.lines if part in line)
            del self.lines[: self.lines.index(line) + 1]
            return line


@pytest.fixture
def logged() -> Iterator[Logged]:
    handler, logger = Logged(), logging.getLogger("kproxy.users")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(before)


def test_a_change_counts_and_a_mistake_keeps_the_former_users(tmp_path: Path, logged: Logged) -> None:
    path = written(tmp_path / "users.yaml", TEXT)
    file = UsersFile(path, every=0.01)
    assert file.user("alice") is not None
    assert file.user("carol") is None
    written(path, "users:\n  carol: {}\n")
    logged.wait(f"users file: {path} has changed: 1 user")
    assert file.user("carol") is not None
    assert file.user("alice") is None
    written(path, f"users:\n  dave:\n    SCRAM-SHA-256: {SECRET}\n")
    assert SECRET not in logged.wait("users.yaml:3: users.dave.SCRAM-SHA-256: has other fields")
    written(path, TEXT, 0o644)
    logged.wait("is open to other users (mode 0644)")
    path.unlink()
    logged.wait("does not exist")
    assert file.user("carol") is not None
    written(path, TEXT)
    logged.wait("has changed: 2 users")
    assert file.user("alice") is not None


def test_its_thread_ends_with_it(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    file = UsersFile(written(tmp_path / "users.yaml", TEXT), every=0.01)
    (thread,) = set(threading.enumerate()) - before
    del file
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()
