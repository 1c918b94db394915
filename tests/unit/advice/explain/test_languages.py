"""The words of operating systems in other languages than English."""

from __future__ import annotations

import gettext
import io
from pathlib import Path

import pytest

from kproxy.advice.explain.explanation import explain
from kproxy.advice.explain.languages import in_english

# Where Debian's libc-l10n has the translations of glibc.
_LOCALES = Path("/usr/share/locale")


@pytest.mark.parametrize("line", [b"", b"plain", "Привет, kafka".encode(), b"\xff\xfe not UTF-8"])
def test_other_lines_stay_as_they_are(line: bytes) -> None:
    assert in_english(line) is line


@pytest.mark.parametrize(
    ("line", "english"),
    [
        ("Connect to ipv4#10.0.0.1:9092 failed: 拒绝连接 (after 1ms)", "Connect to ipv4#10.0.0.1:9092 failed: Connection refused (after 1ms)"),
        ("unable to connect: Connexion refusée", "unable to connect: Connection refused"),
        ("getaddrinfo: 名前またはサービスが不明です", "getaddrinfo: Name or service not known"),
    ],
)  # fmt: skip
def test_the_words_of_a_system_are_put_into_english(line: str, english: str) -> None:
    assert in_english(line.encode()).decode() == english


@pytest.mark.parametrize(
    "message",
    ["Connection refused", "Connection timed out", "Connection reset by peer", "Name or service not known", "Temporary failure in name resolution"],
)  # fmt: skip
@pytest.mark.parametrize("language", ["de", "es", "fr", "ja", "ko", "pl", "pt_BR", "ru", "zh_CN"])
def test_glibc_says_so(language: str, message: str) -> None:
    catalogue = _LOCALES / language / "LC_MESSAGES" / "libc.mo"
    if not catalogue.exists():
        pytest.skip("libc-l10n is not installed")
    with catalogue.open("rb") as file:
        translated = gettext.GNUTranslations(file).gettext(message)

    faults = [explain(io.BytesIO(f"kafka: {words}".encode())).causes[0].faults for words in (translated, message)]
    assert faults[0] == faults[1]


def test_a_late_line_is_put_into_english_if_it_has_the_words_of_a_client() -> None:
    line = "%3|1|FAIL|rdkafka#p-1| [thrd:k.example:9092/1]: k.example:9092/1: Connect to ipv4#192.0.2.7:9092 failed: 连接超时 (after 9ms in state CONNECT)"
    text = "启动\n" * 20_001 + line + "\n"

    explanation = explain(io.BytesIO(text.encode()))

    assert [cause.faults for cause in explanation.causes] == [("filtered",)]
