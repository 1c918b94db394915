"""The token in its file: who else may read the file, and what happens when it changes."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from kproxy.base.errors import ConfigError
from kproxy.proxy.admin import bearer
from kproxy.proxy.admin.bearer import TokenFile, read_file
from tests.unit.proxy.admin.endpoint import Running

OLD, NEW = "the-old-token-of-these-tests", "the-new-token-of-these-tests"
ME = os.geteuid()
AS_ROOT = pytest.mark.skipif(ME != 0, reason="gives files to other users")


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    """As one should: beside it first, then in its place."""
    beside = path.with_name("beside")
    beside.write_text(text)
    beside.chmod(mode)
    beside.rename(path)
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "token", f"{OLD}\n")


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_a_file_of_ones_own(file: Path, mode: int) -> None:
    file.chmod(mode)
    assert read_file(file) == OLD


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o620, 0o602, 0o440, 0o444, 0o601])
def test_one_that_others_may_read_or_write(file: Path, mode: int) -> None:
    file.chmod(mode)
    with pytest.raises(ConfigError) as caught:
        read_file(file)
    assert str(caught.value) == f"{file} is open to other users (mode {mode:04o}): chmod 600 {file}"


def secret(directory: Path, token: str, mode: int, version: str = "..2026_01_01") -> Path:
    """A volume of a Secret, as the kubelet writes it: the name is a link, so that all of it changes at once."""
    real = directory / version
    real.mkdir()
    written(real / "token", token, mode)
    link = directory / "..data_tmp"
    link.symlink_to(version)
    link.rename(directory / "..data")
    path = directory / "token"
    if not path.is_symlink():
        path.symlink_to("..data/token")
    return path


@AS_ROOT
@pytest.mark.parametrize("owner", [0, 4321])
def test_a_file_of_another_user_may_be_read_by_the_group(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, owner: int
) -> None:
    """A Secret with fsGroup is root's, and kproxy is not root; a file of an administrator."""
    monkeypatch.setattr(bearer.os, "geteuid", lambda: 65532)
    for number, (mode, good) in enumerate(
        [(0o440, True), (0o640, True), (0o400, True), (0o444, False), (0o660, False)]
    ):
        path = secret(tmp_path, OLD, mode, f"..{number}")
        os.chown(path, owner, 2000)
        if good:
            assert read_file(path) == OLD
        else:
            with pytest.raises(ConfigError, match=r"chmod 600"):
                read_file(path)


@AS_ROOT
@pytest.mark.parametrize(
    ("group", "groups", "good"), [(2000, [0, 2000], True), (2000, [0], False), (0, [0, 2000], False)]
)
def test_as_root_the_group_is_that_of_the_volume(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, group: int, groups: list[int], good: bool
) -> None:
    monkeypatch.setattr(bearer.os, "getgroups", lambda: groups)
    path = secret(tmp_path, OLD, 0o440)
    os.chown(path, 0, group)
    if good:
        assert read_file(path) == OLD
    else:
        with pytest.raises(ConfigError, match=r"chmod 600"):
            read_file(path)


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.write(write, OLD.encode())
    os.close(write)
    token = TokenFile(Path(f"/dev/fd/{read}"))
    os.close(read)
    assert [token.current(), token.current()] == [OLD, OLD]


def test_the_token_changes_with_its_file(running: Running, file: Path, caplog: pytest.LogCaptureFixture) -> None:
    running.set(token=TokenFile(file))
    running.enable_quit()
    client = running.client()

    def status(token: str) -> int:
        """On one connection: what is open must not keep the old token."""
        client.request("POST", "/quit", headers={"Authorization": f"Bearer {token}"})
        response = client.getresponse()
        response.read()
        return response.status

    assert (status(OLD), status(NEW)) == (202, 401)
    written(file, NEW)
    assert (status(OLD), status(NEW)) == (401, 202)
    file.write_text(f"{OLD}\n")  # in place
    assert (status(OLD), status(NEW)) == (202, 401)
    client.close()
    assert "must show the new token" in caplog.text
    assert OLD not in caplog.text + repr(running.admin.pages)
    assert NEW not in caplog.text


def test_a_secret_that_changes(tmp_path: Path) -> None:
    token = TokenFile(secret(tmp_path, OLD, 0o400))
    assert token.current() == OLD
    secret(tmp_path, NEW, 0o400, "..2026_01_02")
    assert token.current() == NEW


@pytest.mark.parametrize("change", ["gone", "short", "open", "folder", "pipe"])
def test_a_file_that_is_no_good_any_more(file: Path, caplog: pytest.LogCaptureFixture, change: str) -> None:
    token = TokenFile(file)
    if change in ("gone", "folder", "pipe"):
        file.unlink()
    if change == "folder":
        file.mkdir()
    if change == "pipe":
        os.mkfifo(file)  # which nobody writes: to open it would take for ever
    if change == "short":
        written(file, "hunter2")
    if change == "open":
        written(file, NEW, 0o644)
    assert [token.current() for _ in range(3)] == [OLD] * 3
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert caplog.messages[0].startswith(f"admin: --admin-token-file: {file} ")
    assert caplog.messages[0].endswith("; the previous token still counts")
    assert "hunter2" not in caplog.text
    if change == "open":
        file.chmod(0o600)
        assert token.current() == NEW
