"""The classes that declare options: groups, `Option`, `Reload`, and the base of the models."""

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
    """The effect of a reload on a changed option. The values are the words of the reference table and of the schema."""

    RESTART = "restart"  # it refuses the configuration: the option needs a new kproxy
    ADDED = "live if it was not set, else restart"
    LIVE = "live"  # it takes the value, and no session notices
    DRAINS_ROUTES = "live; drains what it moves"  # of a node, the sessions along what is no longer a route to it
    DRAINS_ALL = "live; drains the cluster"  # the sessions were opened in another way than the next ones


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """The properties of an option that its type does not have."""

    group: str
    help: str
    short: str = ""
    off: str = ""
    """A flag without a value that means no."""
    unset: str = ""
    """The meaning of an empty default."""
    secret: bool = False
    """The value is never shown, and no flag takes it: it comes from a variable or a file."""
    reload: Reload = Reload.RESTART
    """The effect of a change while kproxy runs."""


def kebab(name: str) -> str:
    """Return a name as it appears in files and flags."""
    return name.replace("_", "-")


class Model(BaseModel):
    """The base of the models. It is frozen; keys are kebab-case in files, and Python's names in code."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=kebab,
        validate_by_name=True,
        validate_by_alias=True,
        hide_input_in_errors=True,  # a value may be a secret
    )

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Leave out the values of secrets."""
        for name, value in super().__repr_args__():
            metadata = type(self).model_fields[name].metadata if name in type(self).model_fields else ()
            if not any(isinstance(item, Option) and item.secret for item in metadata):
                yield name, value
