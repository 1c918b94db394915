"""Files that somebody may replace by something else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kproxy.base import regularfile


def test_a_file_its_links_and_its_size(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"x" * 2048)
    link.symlink_to("file")
    assert regularfile.read(link, 2048) == file.read_bytes()
    with pytest.raises(ValueError, match="is larger than 1 KiB"):
        regularfile.read(file, 1024)
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        assert len(regularfile.read("file", 4096, directory=folder)) == 2048
        with pytest.raises(OSError, match="symbolic links"):
            regularfile.read("link", 4096, directory=folder, follow_links=False)
    finally:
        os.close(folder)
    with pytest.raises(FileNotFoundError):
        regularfile.read(tmp_path / "none", 1)


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/tty"])
def test_what_is_no_file(device: str, tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    (tmp_path / "link").symlink_to(device)
    os.mkfifo(tmp_path / "pipe")
    for place in ("link", "pipe", "."):
        with pytest.raises((ValueError, OSError)) as caught:
            regularfile.read(tmp_path / place, 1)
        assert isinstance(caught.value, OSError) or str(caught.value) == "is not a regular file"
    assert len(os.listdir("/proc/self/fd")) == before
