"""A Python with kproxy that runs wherever its directory lies, on any Linux of this machine's architecture.

It is for executors that have no Python, or one that kproxy does not run on. The interpreter, its standard library and
the libraries of both are Debian's. They come with their own C library and its loader, so that those of the host do not
matter. `bin/python` is a script of /bin/sh that starts them.
"""

from __future__ import annotations

import gzip
import os
import re
import shlex
import shutil
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

from kproxy.base.errors import ConfigError
from kproxy.base.process import run_program

OLDEST = (3, 11)

# kproxy opens no terminal and no database: these libraries, and the modules that need them, stay out.
_UNUSED = re.compile(r"lib(db|ncurses|readline|sqlite|nsl|tirpc|tinfo)")
_UNUSED_MODULES = (
    *("config-*", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "test", "tkinter", "turtledemo"),
    *("EXTERNALLY-MANAGED", "lib-dynload/_test*", "lib-dynload/_xx*", "lib-dynload/xx*"),
)
_LIBRARY = re.compile(r"(lib|zlib)[a-z0-9.+-]*")

# Where the systems keep the certificates that they trust; Debian's OpenSSL looks in the first of them only.
_TRUSTED = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)

# As old as a zip file can be; tar warns of files from 1970.
_MADE = 315_532_800

_START = r"""#!/bin/sh
# Starts the Python of this directory, wherever that lies, with the C library that came with it. What the host sets for
# its own Python and its own C library does not count: hence -I, and no LD_PRELOAD.
here=$(CDPATH='' cd -- "${{0%/*}}/.." && pwd -P) || exit 127
unset LD_PRELOAD
if [ -z "$SSL_CERT_FILE$SSL_CERT_DIR" ]; then
  for file in {trusted}; do
    if [ -r "$file" ]; then export SSL_CERT_FILE="$file"; break; fi
  done
fi
exec "$here/lib/native/{loader}" --inhibit-cache --library-path "$here/lib/native" \
  --argv0 "$here/bin/python" "$here/lib/native/{python}" -I -X utf8 "$@"
"""


def build(directory: Path, wheel: Path, more: Sequence[str] = ()) -> None:
    """Make it in an empty directory, with what kproxy's wheel depends on, and with `more` packages of PyPI's.

    Raises ConfigError, as where there is no apt-get.
    """
    missing = [name for name in ("apt-get", "apt-cache", "dpkg-deb") if shutil.which(name) is None]
    if missing:
        raise ConfigError(
            f"{missing[0]} was not found: the archive is made from Debian's packages, on Debian or Ubuntu"
        )
    version = _newest()
    tree = directory / "debian"
    _unpack(version, tree)
    packages = _arrange(version, tree, directory)
    shutil.rmtree(tree)
    python = directory / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-compile"]
    _run(*pip, "--only-binary", ":all:", "--target", str(packages), str(wheel), *more)
    shutil.rmtree(packages / "bin", ignore_errors=True)  # they name the directory in which they were made
    for record in packages.glob("*.dist-info/direct_url.json"):
        record.unlink()  # the same
    unchecked = ["--invalidation-mode", "unchecked-hash", "-s", str(directory)]
    _run(str(python), "-m", "compileall", "-q", "-f", *unchecked, str(packages.parent))


def write_start(directory: Path, loader: str, python: str, trusted: Sequence[str] = _TRUSTED) -> None:
    """Write the scripts in `bin`, which start the programs in `lib/native`."""
    text = _START.format(loader=loader, python=python, trusted=" ".join(map(shlex.quote, trusted)))
    (directory / "bin").mkdir()
    for name in ("python", "python3"):
        script = directory / "bin" / name
        script.write_text(text)
        script.chmod(0o755)


def pack(directory: Path, archive: Path) -> None:
    """Make it one file, whose names begin with bin and lib; the same from the same files."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime = _MADE
        return entry

    with (
        archive.open("wb") as raw,
        gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for path in sorted(directory.iterdir()):
            tar.add(path, path.name, filter=plain)


def _newest() -> str:
    """Return the version of Python of this Debian, such as "3.11"."""
    match = re.search(r"python(3\.(\d+))-minimal", _run("apt-cache", "depends", "python3-minimal"))
    if match is None or (3, int(match[2])) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise ConfigError(
            f"apt-get has no Python {wanted} or newer: run apt-get update, or use a newer Debian or Ubuntu"
        )
    return match[1]


def _unpack(version: str, tree: Path) -> None:
    """Download and unpack Python's packages and the libraries that they need."""
    wanted = [f"python{version}-minimal", f"libpython{version}-stdlib", "libgcc-s1"]
    for package in wanted:  # it grows
        depends = re.findall(r"Depends: (\S+)", _run("apt-cache", "depends", "--important", package))
        libraries = [name for name in dict.fromkeys(depends) if _LIBRARY.fullmatch(name) and not _UNUSED.match(name)]
        wanted += [name for name in libraries if name not in wanted]
    tree.mkdir()
    # apt-get changes to another user, which may not look into a directory of one's own, and says so.
    _run("apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", *wanted, cwd=tree)
    for file in sorted(tree.glob("*.deb")):
        _run("dpkg-deb", "-x", str(file), str(tree))


def _arrange(version: str, tree: Path, directory: Path) -> Path:
    """Copy Debian's files to the places where a Python finds itself, and return the directory for its packages."""
    library = directory / "lib" / f"python{version}"
    shutil.copytree(tree / "usr" / "lib" / library.name, library)
    for unused in (path for pattern in _UNUSED_MODULES for path in library.glob(pattern)):
        shutil.rmtree(unused) if unused.is_dir() else unused.unlink()
    native = directory / "lib" / "native"
    native.mkdir()
    # A library under the name by which others know it, which as a rule is a link.
    links = {path for path in (*tree.glob("lib/*/*.so*"), *tree.glob("usr/lib/*/*.so*"))}
    behind = {path.resolve() for path in links if path.is_symlink()}
    for path in links:
        if path.is_symlink() or path not in behind:
            shutil.copy(path, native / path.name)
    there = {path.name for path in native.iterdir()}
    for module in (library / "lib-dynload").iterdir():
        if not _needs(module) <= there:
            module.unlink()
    [loader] = native.glob("ld-linux*.so.*")
    shutil.copy(tree / "usr" / "bin" / library.name, native / library.name)
    for licence in tree.glob("usr/share/doc/*/copyright"):
        kept = directory / "share" / "doc" / licence.parent.name
        kept.mkdir(parents=True)
        shutil.copy(licence, kept)
    write_start(directory, loader.name, library.name)
    packages = library / "dist-packages"
    packages.mkdir(exist_ok=True)
    return packages


def _needs(module: Path) -> set[str]:
    """Return the names of the libraries in a file."""
    return {name.decode() for name in re.findall(rb"\0(lib[\w.+-]+\.so[\d.]*)(?=\0)", module.read_bytes())}


def _run(*command: str, cwd: Path | None = None) -> str:
    """Return the output of a command. Raises ConfigError with the last line of its errors."""
    try:
        done = run_program(command, cwd=cwd, env={**os.environ, "LC_ALL": "C"})
    except OSError as error:
        raise ConfigError(f"{command[0]} does not run: {error}") from None
    if done.returncode:
        why = (done.stderr.strip().splitlines() or [f"it ended with code {done.returncode}"])[-1]
        raise ConfigError(f"{Path(command[0]).name} {command[1]}: {why}")
    return done.stdout
