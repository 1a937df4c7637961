"""Where the job may run, and what it may cost in time and money."""

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import AwareDatetime, BeforeValidator, Field, model_validator

from anygpu.spec import shorthand, units
from anygpu.spec.fields import Friendly, Microdollars, Part, Seconds, Several, Trouble, Word, as_number

HOLD_S = 3600.0


def _deadline_at(value: Any) -> Any:
    return units.deadline(value.value) if isinstance(value, Friendly) else units.instant(value)


class Limits(Part):
    """When to stop: by time, by money, by the clock, by failures."""

    friendly = shorthand.FRIENDLY["limits"]

    timeout_s: Seconds | None = None
    max_cost_microusd: Microdollars | None = None
    deadline_s: Seconds | None = None
    deadline_at: Annotated[AwareDatetime, BeforeValidator(_deadline_at)] | None = None
    max_retries: Annotated[int, Field(ge=0, le=1000), BeforeValidator(as_number)] = 3

    @classmethod
    def field_of(cls, name: str, value: Any) -> str:
        """A deadline is a duration from submission, or an instant."""
        if name != "deadline":
            return super().field_of(name, value)
        try:
            return "deadline_at" if isinstance(units.deadline(value), datetime) else "deadline_s"
        except ValueError:
            return "deadline_at"

    @model_validator(mode="after")
    def _one_deadline(self) -> Self:
        if self.deadline_s is not None and self.deadline_at is not None:
            raise Trouble((("deadline_at",), str(self.deadline_at), "is given twice; leave out 'deadline_s'"))
        return self

    def deadline_from(self, submitted_at: datetime) -> datetime | None:
        """The instant by which the job should be done, for a job submitted then."""
        if self.deadline_s is not None:
            return submitted_at + timedelta(seconds=self.deadline_s)
        return self.deadline_at

    def seconds_left(self, now: datetime) -> float | None:
        """Until the deadline of a job that is submitted now."""
        until = self.deadline_from(now)
        return None if until is None else (until - now).total_seconds()


def _hold(value: Any) -> Any:
    """`true` keeps a failed machine for an hour; a duration says how long."""
    meant = value.value if isinstance(value, Friendly) else value
    if isinstance(meant, bool):
        return HOLD_S if meant else None
    return None if meant is None else units.seconds(meant)


Names = Annotated[tuple[Word, ...], Field(max_length=100), Several]


class Placement(Part):
    """Where to run: how to choose, what to try next, and what is out of the question."""

    friendly = shorthand.FRIENDLY["placement"]

    strategy: Literal["queue", "cheapest", "fastest", "preferred", "balanced"] | None = None
    fallbacks: Names = ()
    allowed: Names = ()
    forbidden: Names = ()
    profile: Word | None = None
    region: Word | None = None
    zone: Word | None = None
    instance_type: Word | None = None
    interruptible: Annotated[Literal["auto", "yes", "no"], BeforeValidator(shorthand.interruptible)] = "auto"
    dedicated: bool = False
    hold_on_failure_s: Annotated[float | None, BeforeValidator(_hold)] = None
    expected_duration_s: Seconds | None = None
    move: Literal["never", "advise", "act"] | None = None

    @model_validator(mode="after")
    def _no_contradiction(self) -> Self:
        findings = [
            *self._clash(
                "forbidden", set(self.forbidden) & set(self.allowed), "is both allowed and forbidden"
            ),
            *self._clash(
                "fallbacks", set(self.fallbacks) & set(self.forbidden), "is a fallback and forbidden"
            ),
            *self._clash("fallbacks", self._not_allowed(), "is a fallback and not among the allowed"),
        ]
        if findings:
            raise Trouble(*findings)
        return self

    def _not_allowed(self) -> set[str]:
        return set(self.fallbacks) - set(self.allowed) - set(self.forbidden) if self.allowed else set()

    @staticmethod
    def _clash(field: str, names: set[str], said: str) -> list[tuple[tuple[str | int, ...], Any, str]]:
        return [((field,), name, said) for name in sorted(names)]
