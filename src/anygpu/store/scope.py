"""The scope of a caller: organisation, project and person. Every read and write of jobs takes a scope."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """A person acting in one project of one organisation."""

    organisation: str
    project: str
    person: str = ""


@dataclass(frozen=True, slots=True)
class SystemScope:
    """The scope of the control loop, which may access every organisation. Never created from a request."""


AnyScope = Scope | SystemScope
SYSTEM = SystemScope()
