"""The sections of a job spec.

Resources, limits, placement, working directory, dataset, checkpoints, tracking and notifications.
"""

import re
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field, model_validator

from anygpu.spec import shorthand, units
from anygpu.spec.fields import (
    AliasedValue,
    FieldErrors,
    Gibibytes,
    Line,
    Microdollars,
    OneOrMore,
    RelativePath,
    Seconds,
    SpecModel,
    Tag,
    Text,
    TextPattern,
    Word,
    as_number,
    require_relative_path,
)


def _parse_gpu(value: Any) -> Any:
    value_given = shorthand.gpu(value)
    if isinstance(value_given, str):
        raise ValueError("is not a GPU; write a kind, a count, or both: 'A100', 2, 'A100:8'")
    return value_given


GpuKind = Annotated[
    Text,
    TextPattern(
        r"[A-Za-z0-9][A-Za-z0-9 ._-]*", 60, "is not a kind of GPU; write it as 'A100', 'H100' or 'RTX 4090'"
    ),
]


class Gpu(SpecModel):
    """How many GPUs, of which kind, with at least how much memory each."""

    aliases = shorthand.ALIASES["resources.gpu"]

    count: Annotated[int, Field(ge=0, le=1024), BeforeValidator(as_number)] = 1
    kind: GpuKind | None = None
    memory_gib: Gibibytes | None = None


class Resources(SpecModel):
    """What the machine must have at least; what is not said is decided by the plan."""

    aliases = shorthand.ALIASES["resources"]

    gpu: Annotated[Gpu, BeforeValidator(_parse_gpu)] | None = None
    cpus: Annotated[float, Field(gt=0, le=4096), BeforeValidator(as_number)] | None = None
    memory_gib: Gibibytes | None = None
    disk_gib: Gibibytes | None = None


DEFAULT_HOLD_S = 3600.0


def _parse_deadline(value: Any) -> Any:
    return units.deadline(value.value) if isinstance(value, AliasedValue) else units.instant(value)


class Limits(SpecModel):
    """When to stop: by time, by money, by the clock, by failures."""

    aliases = shorthand.ALIASES["limits"]

    timeout_s: Seconds | None = None
    max_cost_microusd: Microdollars | None = None
    deadline_s: Seconds | None = None
    deadline_at: Annotated[AwareDatetime, BeforeValidator(_parse_deadline)] | None = None
    max_retries: Annotated[int, Field(ge=0, le=1000), BeforeValidator(as_number)] = 3

    @classmethod
    def field_for_alias(cls, name: str, value: Any) -> str:
        """A deadline is a duration from submission, or an instant."""
        if name != "deadline":
            return super().field_for_alias(name, value)
        try:
            return "deadline_at" if isinstance(units.deadline(value), datetime) else "deadline_s"
        except ValueError:
            return "deadline_at"

    @model_validator(mode="after")
    def _one_deadline(self) -> Self:
        if self.deadline_s is not None and self.deadline_at is not None:
            raise FieldErrors(
                (("deadline_at",), str(self.deadline_at), "is given twice; leave out 'deadline_s'")
            )
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


def _parse_hold(value: Any) -> Any:
    """`true` keeps a failed machine for an hour; a duration says how long."""
    value_given = value.value if isinstance(value, AliasedValue) else value
    if isinstance(value_given, bool):
        return DEFAULT_HOLD_S if value_given else None
    return None if value_given is None else units.seconds(value_given)


Names = Annotated[tuple[Word, ...], Field(max_length=100), OneOrMore]


class Placement(SpecModel):
    """Where to run: how to choose, what to try next, and what is out of the question."""

    aliases = shorthand.ALIASES["placement"]

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
    hold_on_failure_s: Annotated[float | None, BeforeValidator(_parse_hold)] = None
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
            raise FieldErrors(*findings)
        return self

    def _not_allowed(self) -> set[str]:
        return set(self.fallbacks) - set(self.allowed) - set(self.forbidden) if self.allowed else set()

    @staticmethod
    def _clash(field: str, names: set[str], message: str) -> list[tuple[tuple[str | int, ...], Any, str]]:
        return [((field,), name, message) for name in sorted(names)]


Sha256 = Annotated[str, TextPattern(r"[0-9a-f]{64}", 64, "is not a SHA-256 in lower-case hexadecimal")]
Arguments = Annotated[tuple[Text, ...], Field(max_length=5000), BeforeValidator(shorthand.words)]
Patterns = Annotated[tuple[RelativePath, ...], Field(max_length=200), OneOrMore]
Tags = Annotated[
    tuple[Tag, ...], Field(max_length=50), OneOrMore, AfterValidator(lambda tags: tuple(dict.fromkeys(tags)))
]


class Workdir(SpecModel):
    """The directory that travels with the job. `archive` is set by the server once it has been uploaded."""

    path: Line | None = None
    ignore: Annotated[tuple[Line, ...], Field(max_length=1000), OneOrMore] = ()
    subdir: Annotated[
        str, AfterValidator(lambda path: path and require_relative_path(path)), Field(max_length=1000)
    ] = ""
    archive: Sha256 | None = None


class Dataset(SpecModel):
    """The data the job reads: exactly one of a path, a URL, or the name (and version) of a stored dataset.

    `parts` are set by the client once it has sent what lies at the path: an archive, cut into pieces.
    """

    path: Line | None = None
    url: Annotated[str, Field(max_length=4000)] | None = None
    name: (
        Annotated[Text, TextPattern(r"[A-Za-z0-9][A-Za-z0-9._/-]*", 200, "is not a dataset's name")] | None
    ) = None
    version: (
        Annotated[Text, TextPattern(r"[A-Za-z0-9][A-Za-z0-9._-]*", 100, "is not a dataset's version")] | None
    ) = None
    parts: Annotated[tuple[Sha256, ...], Field(max_length=2000)] = ()

    @property
    def kind(self) -> Literal["path", "url", "name"]:
        return "path" if self.path is not None else "url" if self.url is not None else "name"

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = [key for key in ("path", "url", "name") if getattr(self, key) is not None]
        if len(given) != 1:
            raise FieldErrors(((), ", ".join(given) or None, "give exactly one of path, url and name"))
        if self.version is not None and self.name is None:
            raise FieldErrors((("version",), self.version, "belongs to a named dataset; give its name too"))
        if self.parts and self.path is None:
            raise FieldErrors((("parts",), None, "belong to a path; give it too"))
        return self

    @model_validator(mode="after")
    def _known_scheme(self) -> Self:
        known = "|".join(shorthand.DATASET_SCHEMES)
        if self.url is not None and not re.fullmatch(rf"(?:{known})://[^\s\x00-\x1f]+", self.url):
            message = f"is not a URL that can be read; use {', '.join(shorthand.DATASET_SCHEMES)}"
            raise FieldErrors((("url",), self.url[:100], message))
        return self


class Checkpoint(SpecModel):
    """What to save while training, how often, and how to start the script again from it."""

    aliases = shorthand.ALIASES["checkpoint"]

    every_s: Seconds = 300.0
    paths: Patterns = ()
    resume_args: Arguments = ()
    keep: Annotated[int, Field(ge=1, le=10_000), BeforeValidator(as_number)] = 3


def _parse_tracker(value: Any) -> bool | str:
    if isinstance(value, bool) or (isinstance(value, str) and 0 < len(value.strip()) <= 1000):
        return value
    raise ValueError("is neither true or false nor an address, project or directory")


Tracker = Annotated[bool | str, BeforeValidator(_parse_tracker)]


class Track(SpecModel):
    """Experiment trackers to tell: true, or the address, project or directory to use."""

    mlflow: Tracker = False
    wandb: Tracker = False
    tensorboard: Tracker = False
    tags: Tags = ()


class Notify(SpecModel):
    """Whom to tell, and of what."""

    to: Line
    on: Annotated[
        tuple[Literal["started", "completed", "failed", "cancelled", "interrupted", "resumed"], ...],
        OneOrMore,
    ] = ("completed", "failed", "cancelled")

    @model_validator(mode="after")
    def _an_address(self) -> Self:
        if not re.fullmatch(r"https?://\S+|[^@\s]+@[^@\s]+\.[^@\s]+|[a-z][a-z0-9-]*:\S+", self.to):
            raise FieldErrors(
                (
                    ("to",),
                    self.to,
                    "is not an address; write an e-mail address, a web hook's URL or 'slack:#channel'",
                )
            )
        return self
