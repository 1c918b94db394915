"""The status as JSON and back."""

from __future__ import annotations

import json

import pytest

from kproxy.proxy.status import asjson
from kproxy.proxy.status.model import Status
from tests.unit.proxy.status.clusters import cluster

STATUS = Status(
    version="1.2.3",
    draining=False,
    clusters=(cluster("good", "lost", "new", "untold"), cluster()),
)


def test_there_and_back() -> None:
    text = asjson.write(STATUS)
    assert asjson.read(text) == STATUS
    assert "größe".encode() in text  # for people: no escapes
    assert text.endswith(b"}\n")
    assert json.loads(text)["clusters"][0]["nodes"][1]["problem"] == "no way to 2"


def test_fields_of_a_later_kproxy_are_passed_over() -> None:
    later = json.loads(asjson.write(STATUS))
    later["more"] = later["clusters"][0]["nodes"][0]["more"] = {"x": 1}
    assert asjson.read(json.dumps(later).encode()) == STATUS


@pytest.mark.parametrize(
    "data",
    [b"", b"nonsense", b"[]", b"{}", b'{"version": 1}', b"\xff", b"[" * 100_000, b'{"clusters": ' * 1000],
)
def test_what_is_no_status_is_said_in_one_line(data: bytes) -> None:
    with pytest.raises(ValueError, match="this is not the status of a kproxy") as error:
        asjson.read(data)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


def test_a_field_that_is_missing_is_named() -> None:
    broken = json.loads(asjson.write(STATUS))
    del broken["clusters"][0]["nodes"][2]["advertised"]
    with pytest.raises(ValueError, match=r"clusters\.0\.nodes\.2\.advertised"):
        asjson.read(json.dumps(broken).encode())
