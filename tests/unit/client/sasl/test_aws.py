"""AWS_MSK_IAM: the signature, computed once more by an implementation that shares nothing with botocore."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.base.errors import UpstreamError
from kproxy.client.sasl import aws
from kproxy.client.sasl.aws import MskIam
from tests.harness.clients.kafka_python import AwsMskIamClient

ACCESS, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
HOST = "b-1.demo.abcdef.c2.kafka.eu-west-1.amazonaws.com"


@pytest.fixture(autouse=True)
def no_aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Nothing of this machine's."""
    for name in (
        "AWS_SESSION_TOKEN",
        "AWS_PROFILE",
        "AWS_DEFAULT_REGION",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    aws._session.cache_clear()
    yield
    aws._session.cache_clear()


def token(host: str, profile: str | None = None) -> dict[str, str]:
    one = MskIam(host, profile)
    said = json.loads(one.step(b"") or b"")
    assert said["x-amz-signature"] in one.secrets
    assert one.step(b'{"version":"2020_10_22","request-id":"1"}') is None
    assert one.finished
    return dict(said)


def recomputed(said: dict[str, str], region: str, session_token: str | None) -> dict[str, str]:
    """kafka-python's token for the same moment."""
    other = AwsMskIamClient(said["host"], ACCESS, SECRET, region, session_token)
    other.timestamp, other.datestamp = said["x-amz-date"], said["x-amz-date"][:8]
    return {**json.loads(other.first_message()), "user-agent": "kproxy"}


@pytest.mark.parametrize("session_token", [None, "IQoJ/b3Jp+Z2lu=="])
@pytest.mark.parametrize(
    ("host", "region"),
    [
        (HOST, "eu-west-1"),
        ("boot-abc.c1.kafka-serverless.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("b-2.demo.abcdef.c3.kafka.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("kafka.example", "ap-south-1"),
    ],
)
def test_the_advertised_host_is_signed(
    host: str, region: str, session_token: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "ap-south-1")
    if session_token:
        monkeypatch.setenv("AWS_SESSION_TOKEN", session_token)
    said = token(host)
    assert said["host"] == host
    assert said == recomputed(said, region, session_token)
    assert SECRET not in json.dumps(said)


def test_a_profile(tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text(f"[dev]\naws_access_key_id={ACCESS}\naws_secret_access_key={SECRET}\n")
    said = token(HOST, "dev")
    assert said == recomputed(said, "eu-west-1", None)


@pytest.mark.parametrize(
    ("profile", "text"), [(None, "the AWS SDK finds no credentials: set aws-profile"), ("none", r"profile \(none\)")]
)
def test_no_credentials(profile: str | None, text: str) -> None:
    with pytest.raises(UpstreamError, match=text):
        MskIam(HOST, profile).step(b"")


def test_no_region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with pytest.raises(UpstreamError, match=r"neither kafka\.example nor the AWS configuration names the AWS region"):
        MskIam("kafka.example", None).step(b"")
