"""AWS_MSK_IAM: one JSON token, which contains a signed URL. The signed host is the *advertised* one.

The format is that of aws-msk-iam-auth ("2020_10_22"); the signature is botocore's (SigV4, in the query).
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.util import find_spec
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from kproxy.base.errors import UpstreamError
from kproxy.base.messages.logins import AWS_PACKAGE_MISSING, NO_AWS_CREDENTIALS, NO_AWS_REGION
from kproxy.base.packages import install_command

# How long the token may be used, in seconds, as aws-msk-iam-auth has it.
_EXPIRES = 900
_REGION = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com")


def require_botocore() -> None:
    """Raise UpstreamError if botocore is not installed."""
    if find_spec("botocore") is None:
        raise UpstreamError(*AWS_PACKAGE_MISSING.with_reason(command=install_command("botocore")))


class MskIam:
    """One login with the credentials that the AWS SDK finds, or those of a profile."""

    name = "AWS_MSK_IAM"
    advice = "check the IAM policy (kafka-cluster:Connect), the credentials and the region"

    def __init__(self, host: str, profile: str | None) -> None:
        self._host = host
        self._profile = profile
        self.secrets: tuple[str, ...] = ()
        self.finished = False

    def step(self, challenge: bytes) -> bytes | None:
        """Return the token, then None: the broker's answer names the request, for support."""
        if self.secrets:
            self.finished = True
            return None
        token = _sign_token(self._host, self._profile)
        self.secrets = tuple(token[key] for key in ("x-amz-signature", "x-amz-security-token") if key in token)
        return json.dumps(token).encode()


@cache
def _session(profile: str | None) -> Any:
    """Return the botocore session of a profile.

    It is cached, because it refreshes credentials only when they expire.
    """
    from botocore.session import Session

    return Session(profile=profile)


def _sign_token(host: str, profile: str | None) -> dict[str, str]:
    require_botocore()
    from botocore.auth import SigV4QueryAuth
    from botocore.awsrequest import AWSRequest
    from botocore.exceptions import BotoCoreError

    try:
        session = _session(profile)
        credentials = session.get_credentials()
        match = _REGION.search(host)
        region = match[1] if match else session.get_config_variable("region")
    except BotoCoreError as error:
        raise UpstreamError("sasl", f"the AWS SDK has no credentials: {' '.join(str(error).split())}") from None
    if credentials is None:
        raise UpstreamError(*NO_AWS_CREDENTIALS.with_reason())
    if region is None:
        raise UpstreamError(*NO_AWS_REGION.with_reason(host=host))
    request = AWSRequest("GET", f"https://{host}/", params={"Action": "kafka-cluster:Connect"})
    SigV4QueryAuth(credentials.get_frozen_credentials(), "kafka-cluster", region, _EXPIRES).add_auth(request)
    query = {key.lower(): value for key, value in parse_qsl(urlsplit(request.url).query)}
    return {"version": "2020_10_22", "host": host, "user-agent": "kproxy", **query}
