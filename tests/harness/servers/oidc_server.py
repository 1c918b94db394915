"""An OIDC server for tests: authlib's, with the grant for client credentials and signed tokens (RFC 6749, 9068).

    python -m tests.harness.servers.oidc_server PORT CLIENT SECRET AUDIENCE [CERTIFICATE]

`/token` returns tokens, to CLIENT-in-a-hurry short-lived ones; `/jwks` the keys to check them, `/count` the number of
requests for a token.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

warnings.simplefilter("ignore")  # authlib's about itself

from authlib.integrations.flask_oauth2 import AuthorizationServer  # noqa: E402
from authlib.oauth2.rfc6749 import ClientMixin  # noqa: E402
from authlib.oauth2.rfc6749.grants import ClientCredentialsGrant  # noqa: E402
from authlib.oauth2.rfc9068 import JWTBearerTokenGenerator  # noqa: E402
from flask import Flask, jsonify  # noqa: E402
from joserfc.jwk import KeySet, RSAKey  # noqa: E402

EXPIRES_IN, SOON = 600, 30
HURRIED = "-in-a-hurry"


class TheClient(ClientMixin):  # type: ignore[misc]
    """The client that gets tokens. `expires_in`: the lifetime of its tokens in seconds."""

    def __init__(self, name: str, secret: str, expires_in: int) -> None:
        self.name = name
        self.secret = secret
        self.expires_in = expires_in

    def get_client_id(self) -> str:
        return self.name

    def get_allowed_scope(self, scope: str | None) -> str:
        return scope or ""

    def check_client_secret(self, secret: str) -> bool:
        return secret == self.secret

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == "client_secret_basic"

    def check_grant_type(self, grant: str) -> bool:
        return grant == "client_credentials"


def make_app(issuer: str, name: str, secret: str, audience: str) -> Flask:
    """Create the whole application."""
    app = Flask(__name__)
    known = (TheClient(name, secret, EXPIRES_IN), TheClient(name + HURRIED, secret, SOON))
    clients = {client.name: client for client in known}
    keys = KeySet([RSAKey.generate_key(2048, {"kid": "1", "use": "sig", "alg": "RS256"})])
    asked = 0

    class Tokens(JWTBearerTokenGenerator):  # type: ignore[misc]
        def get_jwks(self) -> Any:
            return keys.as_dict(private=True)

        def get_audiences(self, client: Any, user: Any, scope: Any) -> str:
            return audience

    server = AuthorizationServer(
        app, query_client=lambda name: clients.get(name), save_token=lambda token, request: None
    )
    server.register_grant(ClientCredentialsGrant)
    server.register_token_generator(
        "default", Tokens(issuer=issuer, expires_generator=lambda client, grant: client.expires_in)
    )

    @app.post("/token")
    def token() -> Any:
        nonlocal asked
        asked += 1
        return server.create_token_response()

    @app.get("/jwks")
    def jwks() -> Any:
        return jsonify(keys.as_dict(private=False))

    @app.get("/count")
    def count() -> str:
        return str(asked)

    return app


def main(port: str, client: str, secret: str, audience: str, certificate: str = "") -> None:
    """Serve until killed."""
    issuer = f"http{'s' if certificate else ''}://127.0.0.1:{port}"
    context = (certificate, certificate) if certificate else None
    make_app(issuer, client, secret, audience).run("127.0.0.1", int(port), ssl_context=context)


if __name__ == "__main__":
    main(*sys.argv[1:])
