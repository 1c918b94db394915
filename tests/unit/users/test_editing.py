"""Changes of a users file: what stays, who may read the file, and two processes at once."""

from __future__ import annotations

import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from kproxy.base.errors import ConfigError
from kproxy.users.document import UpstreamLogin, User
from kproxy.users.editing import edit_users
from kproxy.users.usersfile import read_users_file
from kproxy.users.verifier import ScramVerifier

VERIFIER = ScramVerifier.from_password("SCRAM-SHA-256", "pencil")
# Characters that mean something in YAML, that are not printable, and that take four bytes.
ODD = "*&!#%@`'\"\\: {}[],\t\x7f\u2028\U0001f600"
PRESENT = """\
# Our users.
users:
    # She left in May.
    alice: {}

    # For the batch jobs.
    "bob":
      logins:
        green: {username: sa-1, password: x} # until June
# The end.
"""


def test_a_new_file_is_private(tmp_path: Path) -> None:
    path = tmp_path / "users.yaml"
    user = User(
        "yes", {"SCRAM-SHA-256": VERIFIER}, {"green": UpstreamLogin(ODD, ODD), "no": UpstreamLogin("", token=ODD)}
    )
    with edit_users(path) as users:
        users["yes"] = user
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_users_file(path).users == {"yes": user}
    assert '\n  "yes":\n' in path.read_text()
    assert list(tmp_path.iterdir()) == [path]


def test_comments_and_other_users_stay(tmp_path: Path) -> None:
    path = tmp_path / "users.yaml"
    path.touch(0o600)
    path.write_text(PRESENT)
    with edit_users(path) as users:
        users["carol"] = User("carol", {}, {})
    assert path.read_text() == PRESENT.replace("# until June\n", "# until June\n    carol: {}\n")
    with edit_users(path) as users:
        del users["carol"]
    assert path.read_text() == PRESENT
    with edit_users(path) as users:
        users["alice"] = User("alice", {"SCRAM-SHA-256": VERIFIER}, {})
    assert path.read_text() == PRESENT.replace("alice: {}", f"alice:\n      SCRAM-SHA-256: {VERIFIER.text()}")
    with edit_users(path) as users:
        users.clear()
    assert (
        path.read_text() == "# Our users.\nusers: {}\n    # She left in May.\n\n    # For the batch jobs.\n# The end.\n"
    )
    with edit_users(path) as users:
        users["dave"] = User("dave", {}, {})
    assert list(read_users_file(path).users) == ["dave"]


@pytest.mark.parametrize("text", ["", "# none\n", "users:", "users: {}", "users: ~\n", "\ufeffusers:\r\n  a: {}\r\n"])
def test_files_of_other_forms(tmp_path: Path, text: str) -> None:
    path = tmp_path / "users.yaml"
    path.touch(0o600)
    path.write_bytes(text.encode())
    with edit_users(path) as users:
        users["dave"] = User("dave", {}, {})
    assert read_users_file(path).users.keys() >= {"dave"}


@pytest.mark.parametrize("text", ["users: {a: {}, b: {}}\n", "{users: {a: {}}}\n"])
def test_a_file_that_cannot_be_changed_stays(tmp_path: Path, text: str) -> None:
    path = tmp_path / "users.yaml"
    path.touch(0o600)
    path.write_text(text)
    with pytest.raises(ConfigError, match="kproxy cannot change a file of this form"), edit_users(path) as users:
        users["dave"] = User("dave", {}, {})
    assert path.read_text() == text
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "users.yaml"
    with pytest.raises(KeyError), edit_users(path) as users:
        del users["nobody-here"]
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConfigError, match=r"cannot be written: no such file or directory"), edit_users(path / "x"):
        pass
    path.write_text("users: {a: [}\n")
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=r"users\.yaml:1: is not YAML"), edit_users(path):
        pass
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="is open to other users"), edit_users(path):
        pass


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "users.yaml", tmp_path / "link"
    path.touch(0o400)
    link.symlink_to("users.yaml")
    with edit_users(link) as users:
        users["dave"] = User("dave", {}, {})
    assert link.is_symlink()
    assert list(read_users_file(path).users) == ["dave"]
    assert stat.S_IMODE(path.stat().st_mode) == (0o400 if os.geteuid() == 0 else 0o600)


def _add(path: Path, prefix: str, count: int) -> None:
    for number in range(count):
        with edit_users(path) as users:
            name = f"{prefix}-{number}"
            users[name] = User(name, {}, {})


def test_two_processes_lose_no_user(tmp_path: Path) -> None:
    path = tmp_path / "users.yaml"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_add, args=(path, prefix, 10)) for prefix in "abc"]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert len(read_users_file(path).users) == 30
