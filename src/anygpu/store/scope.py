"""Who is asking. Every read and write takes a scope; nothing finds a job without one."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """One person acting in one project of one organisation."""

    organisation: str
    project: str
    person: str = ""


@dataclass(frozen=True, slots=True)
class SystemScope:
    """The control loops, which serve every organisation. Never made from a request."""


AnyScope = Scope | SystemScope
SYSTEM = SystemScope()
