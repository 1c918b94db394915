"""A broker's answers to a login, in every version, put together by hand from the message definitions."""

from __future__ import annotations

import struct


def versions(**newest: int) -> bytes:
    """ApiVersions v0 with these APIs."""
    keys = {"handshake": 17, "authenticate": 36, "metadata": 3}
    ranges = b"".join(struct.pack(">hhh", keys[name], 0, most) for name, most in newest.items())
    return struct.pack(">hi", 0, len(newest)) + ranges


def handshake(error: int = 0, *mechanisms: bytes) -> bytes:
    """SaslHandshake, any version."""
    names = b"".join(struct.pack(">h", len(name)) + name for name in mechanisms)
    return struct.pack(">hi", error, len(mechanisms)) + names


def authenticate(
    version: int, token: bytes = b"", error: int = 0, message: bytes | None = None, life: int = 0
) -> bytes:
    """SaslAuthenticate."""
    if version < 2:
        said = struct.pack(">h", -1) if message is None else struct.pack(">h", len(message)) + message
        body = struct.pack(">h", error) + said + struct.pack(">i", len(token)) + token
        return body + (struct.pack(">q", life) if version else b"")
    said = b"\0" if message is None else bytes([len(message) + 1]) + message
    return b"\0" + struct.pack(">h", error) + said + bytes([len(token) + 1]) + token + struct.pack(">q", life) + b"\0"
