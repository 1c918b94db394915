"""A real Kerberos KDC (MIT's, from Debian) with a separate realm."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.harness.process import free_window, wait_until

REALM = "KPROXY.TEST"
# /usr/sbin is not on everybody's PATH.
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_TOOLS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")

needs_kdc = pytest.mark.skipif(
    find_spec("gssapi") is None or any(shutil.which(tool, path=_PATH) is None for tool in _TOOLS),
    reason="no KDC or no gssapi: apt-get install krb5-kdc krb5-admin-server krb5-user libkrb5-dev, pip install gssapi",
)


class Kdc:
    """The realm REALM on a free port. `environment` is for the clients' libraries."""

    def __enter__(self) -> Kdc:
        self.directory = Path(tempfile.mkdtemp(prefix="kdc-"))
        self.log = self.directory / "kdc.log"
        port = free_window(1)
        (self.directory / "krb5.conf").write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
            " rdns = false\n dns_canonicalize_hostname = false\n udp_preference_limit = 1\n"
            " permitted_enctypes = aes256-cts\n"
            f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
            f"[domain_realm]\n .cluster.internal = {REALM}\n localhost = {REALM}\n"
        )
        (self.directory / "kdc.conf").write_text(
            f"[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n"
            f"[realms]\n {REALM} = {{\n  database_name = {self.directory}/principal\n"
            f"  key_stash_file = {self.directory}/stash\n  supported_enctypes = aes256-cts:onlyrealm\n }}\n"
            f"[logging]\n kdc = FILE:{self.log}\n"
        )
        self.environment = {"KRB5_CONFIG": str(self.directory / "krb5.conf")}
        self._environment = {
            **os.environ,
            **self.environment,
            "PATH": _PATH,
            "KRB5_KDC_PROFILE": str(self.directory / "kdc.conf"),
        }
        self.run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
        self._process = subprocess.Popen(
            ["krb5kdc", "-n", "-P", str(self.directory / "pid")],
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: self.log.exists() and "commencing operation" in self.log.read_text(), "the KDC runs")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        shutil.rmtree(self.directory)

    def run(self, *command: str, input: str = "", **environment: str) -> str:
        """Run one of the programs, and return its output; fail if it fails."""
        done = subprocess.run(
            command, input=input, env={**self._environment, **environment}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def principal(self, name: str, password: str) -> None:
        """Add a principal. Principals with the same password have the same key: the realm is their salt."""
        self.run("kadmin.local", "-q", f"addprinc -pw {password} {name}")

    def keytab(self, *names: str) -> Path:
        """Create a keytab with the keys of some principals."""
        path = self.directory / f"{'-'.join(names).replace('/', '_')}.keytab"
        for name in names:
            self.run("kadmin.local", "-q", f"ktadd -norandkey -k {path} {name}")
        return path
