"""Settings of .NET's clients in an appsettings.json, by the names that librdkafka gives them (pure).

Confluent's client for .NET passes all to librdkafka. Its properties have the same words without dots: `SaslMechanism`
is `sasl.mechanism`, and `ScramSha512` is `SCRAM-SHA-512`. Applications also use the names with dots.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from kproxy.advice.lint.value import ConfigValue, ValueStyle

_PROPERTY = re.compile(
    r"(?P<section>(?:.*\.)?)(?P<name>(?:[Bb]ootstrap|[Ss]ecurity|[Ss]asl|[Ss]sl|[Ee]nableSsl)[A-Z]\w*)"
)
_CONNECTION = re.compile(r"ConnectionStrings\.[^.]*kafka[^.]*", re.IGNORECASE)
_WORDS = {
    "Plaintext": "PLAINTEXT",
    "Ssl": "SSL",
    "SaslPlaintext": "SASL_PLAINTEXT",
    "SaslSsl": "SASL_SSL",
    "Gssapi": "GSSAPI",
    "Plain": "PLAIN",
    "ScramSha256": "SCRAM-SHA-256",
    "ScramSha512": "SCRAM-SHA-512",
    "OAuthBearer": "OAUTHBEARER",
}
_BY_WORD = {word.lower(): text for word, text in _WORDS.items()}
_BY_TEXT = {text: word for word, text in _WORDS.items()}
_ENUMERATIONS = ("security.protocol", "sasl.mechanism")
_LINE = re.compile(r"(?P<name>[a-z.]+)=(?P<text>\S+)(?P<rest>.*)")


def librdkafka_settings(values: Mapping[str, ConfigValue]) -> dict[str, ConfigValue]:
    """Return the settings with the names and words of librdkafka."""
    settings: dict[str, ConfigValue] = {}
    for key, value in values.items():
        match = _PROPERTY.fullmatch(key)
        if _CONNECTION.fullmatch(key) and ":" in value.text:
            settings[f"{key}.bootstrap.servers"] = value
        elif match is None:
            settings[key] = value
        else:
            name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", ".", match["name"]).lower()
            word = _BY_WORD.get(value.text.lower()) if name in _ENUMERATIONS else None
            # An edit would write librdkafka's word.
            settings[match["section"] + name] = replace(value, text=word, style=ValueStyle.FIXED) if word else value
    return settings


def appsettings_line(line: str) -> str:
    """Return a line such as `sasl.mechanism=PLAIN` as it stands in an appsettings.json; others as they are."""
    match = _LINE.fullmatch(line)
    if match is None:
        return line
    name = "".join(word.capitalize() for word in match["name"].split("."))
    return f'"{name}": "{_BY_TEXT.get(match["text"], match["text"])}"{match["rest"]}'
