"""What passes before and after the login by a certificate."""

from __future__ import annotations

import pytest

from kproxy.base.errors import WireError
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.protocol.wire.messages import encode_request, read_response
from kproxy.proxy.login.certificate import CertificateAuthenticator
from kproxy.proxy.login.outcomes import ClientLoginFailed
from kproxy.proxy.metrics.counters import CallCounters
from kproxy.proxy.relay.calls import Call, GuardVerdict

VERSIONS = encode_request(ApiKey.API_VERSIONS, 4, 7, {"ClientSoftwareName": "x", "ClientSoftwareVersion": "1"})


class Login:
    def __init__(self) -> None:
        self.seen: list[str] = []
        self.authenticator = CertificateAuthenticator(
            *(lambda word=word: self.seen.append(word) for word in ("evaluate", "changed", "end"))
        )

    def judge(self, request: bytes, key: ApiKey = ApiKey.API_VERSIONS, version: int = 4) -> GuardVerdict | bytes:
        call = Call(key, version, CallCounters(key.name, version))
        return self.authenticator.judge(call, request, len(request) - 4, 0.0)


def test_the_first_request_waits_whatever_it_is() -> None:
    login = Login()
    assert login.judge(VERSIONS[:12]) is GuardVerdict.HOLD
    assert login.judge(VERSIONS) is GuardVerdict.HOLD
    assert login.seen == ["evaluate"]
    login.authenticator.accept()
    assert login.authenticator.is_open
    assert login.seen == ["evaluate", "changed"]


def test_a_refusal_is_an_answer_to_api_versions() -> None:
    login = Login()
    login.judge(VERSIONS)
    login.authenticator.refuse(ClientLoginFailed("no", "upstream", "the user has no login"))
    answer = login.judge(VERSIONS)
    assert isinstance(answer, bytes)
    fields = read_response(ApiKey.API_VERSIONS, 4, answer[4:], 4)
    assert fields["ErrorCode"] == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert answer[4:8] == VERSIONS[8:12]
    assert login.seen == ["evaluate", "end"]
    with pytest.raises(WireError, match="the user has no login"):
        login.judge(encode_request(ApiKey.METADATA, 1, 8, {"Topics": []}), ApiKey.METADATA, 1)


@pytest.mark.parametrize("key", [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE])
def test_sasl_after_the_login_gets_the_answer_of_a_broker(key: ApiKey) -> None:
    login = Login()
    login.authenticator.accept()
    answer = login.judge(encode_request(key, 1, 9, {"Mechanism": "PLAIN", "AuthBytes": b"x"}), key, 1)
    assert isinstance(answer, bytes)
    assert read_response(key, 1, answer[4:], 4)["ErrorCode"] == ErrorCode.ILLEGAL_SASL_STATE
    with pytest.raises(WireError):
        login.judge(b"\0\x10\0\0" + bytes(70_000), key, 1)
    with pytest.raises(WireError):
        login.authenticator.judge_token(1, b"x")
