"""What a declaration of options is made of: groups, `Option`, `Reload`, and the base of the models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pydantic import BaseModel, ConfigDict

# Groups of `--help` and of the reference table, in their order.
CLUSTER = "The cluster"
LOCAL = "Where clients connect"
REACH = "Reaching the brokers"
TLS = "Encryption"
LOGIN = "Logging in to the brokers"
LIMITS = "Limits"
PROCESS = "The process"
GROUPS = (CLUSTER, LOCAL, REACH, TLS, LOGIN, LIMITS, PROCESS)


class Reload(Enum):
    """What a reload does with a changed option. The values are the words of the reference table and of the schema."""

    RESTART = "restart"  # it refuses the configuration: the option needs a new kproxy
    ADDED = "live if it was not set, else restart"
    LIVE = "live"  # it takes the value, and no session notices
    DRAINS_ROUTES = "live; drains what it moves"  # of a node, the sessions along what is no longer a route to it
    DRAINS_ALL = "live; drains the cluster"  # the sessions were opened in another way than the next ones


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """What a field's type does not say.

    `off` is a flag without a value that says no, `unset` says what an empty default means. The value of a `secret`
    is never shown, and no flag takes it: it comes from a variable or a file. `reload` says what a change of it does
    while kproxy runs.
    """

    group: str
    help: str
    short: str = ""
    off: str = ""
    unset: str = ""
    secret: bool = False
    reload: Reload = Reload.RESTART


def kebab(name: str) -> str:
    """A name as files and flags have it."""
    return name.replace("_", "-")


class Model(BaseModel):
    """Frozen; keys are kebab-case in files, names are Python's in code."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=kebab,
        validate_by_name=True,
        validate_by_alias=True,
        hide_input_in_errors=True,  # a value may be a secret
    )

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Without the values of secrets."""
        for name, value in super().__repr_args__():
            metadata = type(self).model_fields[name].metadata if name in type(self).model_fields else ()
            if not any(isinstance(one, Option) and one.secret for one in metadata):
                yield name, value
