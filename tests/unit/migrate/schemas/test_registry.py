"""The client of a registry against registries that are slow, huge, broken, or no registries at all."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import trustme

from kproxy.base.errors import ConfigError
from kproxy.migrate.schemas import registry as module
from kproxy.migrate.schemas.catalog import CatalogReader, find_by_id
from kproxy.migrate.schemas.registry import RegistryClient, RegistryError
from kproxy.migrate.spec.schemas_section import RegistrySection
from tests.harness.servers.schema_registry import SchemaRegistry

Handler = BaseHTTPRequestHandler


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSES", (0.0, 0.0))


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry().serving() as made:
        made.register("orders-value", '"int"')
        yield made


def client(registry: SchemaRegistry, **more: Any) -> RegistryClient:
    return RegistryClient("source", RegistrySection(registry.url), **more)


def raw(data: bytes, *, hangs: bool = False) -> Callable[[Any], bool]:
    """Answers with these bytes, and closes the connection, or waits until the client does."""

    def answer(handler: Any) -> bool:
        handler.wfile.write(data)
        handler.close_connection = True
        if hangs:
            handler.rfile.read()
        return True

    return answer


def reply(status: int, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "it does not speak HTTP, or closes connections early"),
        (b"\x00\x01\x02 nonsense\r\n\r\n", "it does not speak HTTP"),
        (reply(200, b"[1, 2")[:-2], "it does not speak HTTP, or closes connections early"),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200, "it does not speak HTTP"),
        (reply(200, b"<html>"), r"is no schema registry, or has it at another path \(HTTP 200 without its JSON\)"),
        (reply(200, b"[" * 100_000), "is no schema registry"),
        (reply(200, b"\xff\xfe"), "is no schema registry"),
        (reply(404, b"<html>not here"), "is no schema registry, or has it at another path .*Apicurio"),
        (
            reply(301, b"", "Location: http://other/\x1b[31m"),
            r"redirects to http://other/\\x1b\[31m, which kproxy does",
        ),
        (reply(302, b""), "redirects to another place"),
        (
            reply(401, b""),
            r"refuses the login \(HTTP 401\): correct username, password-file or token-file of schemas.so",
        ),
        (reply(403, b'{"error_code": 40301, "message": "\\u001b[2J"}'), r"HTTP 403.*: \\x1b\[2J"),
        (reply(500, b'{"error_code": "x", "message": 7}'), r"refuses \(HTTP 500\)$"),
        (reply(503, b""), r"refuses \(HTTP 503\)"),
        (reply(429, b"", "Retry-After: 99999"), "answers HTTP 429 and wants no request for 99999 s: try later"),
        (reply(200, b'{"a": 1}'), "its list of subjects is none"),
        (reply(200, b'["a", 7]'), "its list of subjects is none"),
        (reply(200, json.dumps(["x" * 5000]).encode()), "a name has more than 1000 characters"),
    ],
)
def test_replies_that_are_no_good(registry: SchemaRegistry, data: bytes, text: str) -> None:
    registry.faults.append(raw(data))
    with client(registry) as asked, pytest.raises(RegistryError, match=text) as caught:
        CatalogReader(asked).read(lambda _: True)
    assert "\n" not in str(caught.value)


def test_a_reply_that_is_too_large(registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_REPLY", 1 << 20)
    registry.faults.append(raw(b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (1 << 21)))
    with client(registry) as asked, pytest.raises(RegistryError, match="its reply has more than 1 MiB"):
        asked.get("subjects")
    assert len(registry.requests) == 1


@pytest.mark.parametrize("beginning", [b"", b"HTTP/1.1 200 OK\r\n", reply(200, b"[]" * 20)[:-4]])
def test_silence_ends_in_time(registry: SchemaRegistry, beginning: bytes) -> None:
    registry.faults.append(raw(beginning, hangs=True))
    with client(registry, seconds=0.2) as asked, pytest.raises(RegistryError, match=r"no complete reply within 0\.2 s"):
        asked.get("subjects")
    assert len(registry.requests) == 1


def test_a_reply_byte_by_byte_ends_in_time(registry: SchemaRegistry) -> None:
    def drip(handler: Any) -> bool:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nx: ")
        handler.connection.settimeout(0.02)
        handler.close_connection = True
        try:
            while True:
                handler.wfile.write(b"y")
                try:
                    if not handler.connection.recv(1):
                        return True
                except TimeoutError:
                    pass
        except OSError:
            return True

    registry.faults.append(drip)
    with client(registry, seconds=0.3) as asked, pytest.raises(RegistryError, match=r"no complete reply within 0\.3 s"):
        asked.get("subjects")


def test_no_server() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    asked = RegistryClient("target", RegistrySection(f"http://127.0.0.1:{port}"))
    with pytest.raises(RegistryError, match=r"the target's registry http://127.*cannot be asked: .*refused"):
        asked.get("subjects")


def test_a_busy_registry_is_asked_again(registry: SchemaRegistry) -> None:
    answers = [reply(429, b"", "Retry-After: 0"), reply(503, b"<html>")]
    registry.faults.append(lambda handler: bool(answers) and raw(answers.pop())(handler))
    with client(registry) as asked:
        assert asked.get("subjects") == ["orders-value"]
    assert len(registry.requests) == 3


def test_connections_are_kept_and_replaced_when_the_server_has_closed_them(registry: SchemaRegistry) -> None:
    ports: list[int] = []
    closes: list[bool] = []

    def note(handler: Any) -> bool:
        ports.append(handler.client_address[1])
        if closes:
            handler.close_connection = closes.pop()  # without a word in the reply
        return False

    registry.faults.append(note)
    with client(registry) as asked:
        asked.get("subjects")
        closes.append(True)
        asked.get("subjects")
        asked.get("subjects")
    assert ports[0] == ports[1] != ports[2]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"schema": "x"}, "a reply has no id or version"),
        ({"schema": 7, "id": 1}, "a reply has no schema"),
        ({"schema": "x", "id": 2**31}, "a reply has no id or version from 1 to 2147483647"),
        ({"schema": "x", "id": True}, "a reply has no id or version"),
        ({"schema": "x", "id": -1}, "a reply has no id or version"),
        ({"schema": "x", "id": 1, "references": 7}, "of another type"),
        ({"schema": "x", "id": 1, "references": [{"name": "a"}]}, "has a reference without"),
        ([], "a reply has no schema"),
    ],
)
def test_versions_that_are_no_good(registry: SchemaRegistry, value: Any, text: str) -> None:
    def answer(handler: Any) -> bool:
        is_version = "/versions/" in handler.path
        if is_version:
            handler.reply(200, value)
        return is_version

    registry.faults.append(answer)
    with client(registry) as asked, pytest.raises(RegistryError, match=text):
        CatalogReader(asked).read(lambda _: True)


def test_a_version_that_is_gone_meanwhile_is_left_out(registry: SchemaRegistry) -> None:
    def answer(handler: Any) -> bool:
        is_version = "/versions/" in handler.path
        if is_version:
            handler.reply(404, {"error_code": 40402, "message": "Version not found."})
        return is_version

    registry.faults.append(answer)
    with client(registry) as asked:
        assert CatalogReader(asked).read(lambda _: True).subjects["orders-value"].versions == ()


def test_all_schemas_together_are_bounded(registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    from kproxy.migrate.schemas import catalog

    monkeypatch.setattr(catalog, "_MOST_TEXT", 3)
    with client(registry) as asked, pytest.raises(RegistryError, match="copy some of the subjects at a time"):
        CatalogReader(asked).read(lambda _: True)


def test_the_login_is_sent_and_never_shown(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("s3cret-pass\n")
    with SchemaRegistry(login="mover:s3cret-pass").serving() as registry:
        section = RegistrySection(registry.url, username="mover", password_file=tmp_path / "password")
        with RegistryClient("source", section) as asked:
            assert asked.get("subjects") == []
        (tmp_path / "password").write_text("wr0ng-pass\n")
        with RegistryClient("source", section) as asked, pytest.raises(RegistryError, match="refuses the login") as e:
            asked.get("subjects")
    assert "pass" not in str(e.value).replace("password-file", "")
    with pytest.raises(ConfigError, match=r"schemas\.source: .*none cannot be read"):
        RegistryClient("source", RegistrySection("http://a", username="a", password_file=tmp_path / "none"))
    (tmp_path / "token").write_text("two words")
    with pytest.raises(ConfigError, match=r"schemas\.source\.token-file: the file has something that is no token"):
        RegistryClient("source", RegistrySection("http://a", token_file=tmp_path / "token"))


def test_tls_is_verified(registry: SchemaRegistry, tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    with SchemaRegistry().serving(context) as encrypted:
        url = encrypted.url.replace("127.0.0.1", "localhost")
        with RegistryClient("target", RegistrySection(url, ca=tmp_path / "ca.pem")) as asked:
            assert asked.get("subjects") == []
            assert asked.get("contexts") == ["."]
        with (
            RegistryClient("target", RegistrySection(url)) as asked,
            pytest.raises(RegistryError, match=r"its certificate is not trusted.*ca names the certificates"),
        ):
            asked.get("subjects")
    url = registry.url.replace("http://", "https://")
    with (
        RegistryClient("target", RegistrySection(url)) as asked,
        pytest.raises(RegistryError, match="it may speak plain HTTP only"),
    ):
        asked.get("subjects")
    with pytest.raises(ConfigError, match=r"schemas\.target\.ca: "):
        RegistryClient("target", RegistrySection("https://a", ca=Path(__file__)))


def test_a_schema_by_its_id(registry: SchemaRegistry) -> None:
    with client(registry) as asked:
        schema = find_by_id(asked, ".", 1)
        assert schema is not None
        assert schema.text == '"int"'
        assert find_by_id(asked, ".", 2) is None
