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
    expanded = shorthand.gpu(value)
    if isinstance(expanded, str):
        raise ValueError(
            "is not a GPU request; write a GPU model, a number of GPUs, or both: 'A100', 2, 'A100:8'"
        )
    return expanded


GpuKind = Annotated[
    Text,
    TextPattern(
        r"[A-Za-z0-9][A-Za-z0-9 ._-]*",
        60,
        "is not a GPU model; write one such as 'A100', 'H100' or 'RTX 4090'",
    ),
]


class Gpu(SpecModel):
    """The GPUs of the machine: their number, their model, and the minimum memory of each."""

    aliases = shorthand.ALIASES["resources.gpu"]

    count: Annotated[int, Field(ge=0, le=1024), BeforeValidator(as_number)] = 1
    kind: GpuKind | None = None
    memory_gib: Gibibytes | None = None


class Resources(SpecModel):
    """Minimum resources of each machine, and the number of machines. The planner chooses what is not set."""

    aliases = shorthand.ALIASES["resources"]

    gpu: Annotated[Gpu, BeforeValidator(_parse_gpu)] | None = None
    cpus: Annotated[float, Field(gt=0, le=4096), BeforeValidator(as_number)] | None = None
    memory_gib: Gibibytes | None = None
    disk_gib: Gibibytes | None = None
    nodes: Annotated[int, Field(ge=1, le=1024), BeforeValidator(as_number)] = 1


DEFAULT_HOLD_S = 3600.0


def _parse_deadline(value: Any) -> Any:
    return units.deadline(value.value) if isinstance(value, AliasedValue) else units.instant(value)


DEFAULT_RETRIES = 3


class Limits(SpecModel):
    """Limits of a job: time, cost, deadline and retries."""

    aliases = shorthand.ALIASES["limits"]

    timeout_s: Seconds | None = None
    max_cost_microusd: Microdollars | None = None
    deadline_s: Seconds | None = None
    deadline_at: Annotated[AwareDatetime, BeforeValidator(_parse_deadline)] | None = None
    max_retries: Annotated[int, Field(ge=0, le=1000), BeforeValidator(as_number)] = DEFAULT_RETRIES

    @classmethod
    def field_for_alias(cls, name: str, value: Any) -> str:
        """Map `deadline` to `deadline_s` (a duration from submission) or `deadline_at` (an instant)."""
        if name != "deadline":
            return super().field_for_alias(name, value)
        try:
            return "deadline_at" if isinstance(units.deadline(value), datetime) else "deadline_s"
        except ValueError:
            return "deadline_at"

    @model_validator(mode="after")
    def _check_deadline(self) -> Self:
        if self.deadline_s is not None and self.deadline_at is not None:
            raise FieldErrors(
                (
                    ("deadline_at",),
                    str(self.deadline_at),
                    "sets the same deadline as 'deadline_s'; leave out one of the two",
                )
            )
        return self

    def deadline_from(self, submitted_at: datetime) -> datetime | None:
        """Return the deadline of a job that was submitted at `submitted_at`, or None if the job has none."""
        if self.deadline_s is not None:
            return submitted_at + timedelta(seconds=self.deadline_s)
        return self.deadline_at

    def seconds_left(self, now: datetime) -> float | None:
        """Return the seconds until the deadline for a job that is submitted at `now`, or None without a deadline."""
        until = self.deadline_from(now)
        return None if until is None else (until - now).total_seconds()


def _parse_hold(value: Any) -> Any:
    """Parse `hold_on_failure`: `true` means one hour, and a duration sets the time."""
    plain = value.value if isinstance(value, AliasedValue) else value
    if isinstance(plain, bool):
        return DEFAULT_HOLD_S if plain else None
    return None if plain is None else units.seconds(plain)


Names = Annotated[tuple[Word, ...], Field(max_length=100), OneOrMore]


class Placement(SpecModel):
    """Where the job may run: how an offer is chosen, and which backends, regions and machines are allowed."""

    aliases = shorthand.ALIASES["placement"]

    strategy: Literal["queue", "cheapest", "fastest", "preferred", "balanced"] | None = None
    fallbacks: Names = ()
    allowed: Names = ()
    forbidden: Names = ()
    profile: Word | None = None
    region: Word | None = None
    zone: Word | None = None
    instance_type: Word | None = None
    paid: bool | None = None  # None: as the other fields and the server's setting say
    interruptible: Annotated[Literal["auto", "yes", "no"], BeforeValidator(shorthand.interruptible)] = "auto"
    dedicated: bool = False
    hold_on_failure_s: Annotated[float | None, BeforeValidator(_parse_hold)] = None
    expected_duration_s: Seconds | None = None
    move: Literal["never", "advise", "act"] | None = None

    @model_validator(mode="after")
    def _check_contradictions(self) -> Self:
        findings = [
            *self._clash(
                "forbidden",
                set(self.forbidden) & set(self.allowed),
                "is both allowed and forbidden; remove it from one of the lists",
            ),
            *self._clash(
                "fallbacks",
                set(self.fallbacks) & set(self.forbidden),
                "is both a fallback and forbidden; remove it from one of the lists",
            ),
            *self._clash(
                "fallbacks",
                self._not_allowed(),
                "is a fallback but is not in 'allowed'; add it there, or remove the fallback",
            ),
        ]
        if findings:
            raise FieldErrors(*findings)
        return self

    @property
    def allowed_backends(self) -> tuple[str, ...]:
        """The only backends that the job may use: its profile, else `allowed`. Empty: every backend."""
        return (self.profile,) if self.profile is not None else self.allowed

    def _not_allowed(self) -> set[str]:
        return set(self.fallbacks) - set(self.allowed) - set(self.forbidden) if self.allowed else set()

    @staticmethod
    def _clash(field: str, names: set[str], message: str) -> list[tuple[tuple[str | int, ...], Any, str]]:
        return [((field,), name, message) for name in sorted(names)]


Sha256 = Annotated[
    str, TextPattern(r"[0-9a-f]{64}", 64, "is not a SHA-256; write 64 hexadecimal digits in lower case")
]
Arguments = Annotated[tuple[Text, ...], Field(max_length=5000), BeforeValidator(shorthand.words)]
Patterns = Annotated[tuple[RelativePath, ...], Field(max_length=200), OneOrMore]
Tags = Annotated[
    tuple[Tag, ...], Field(max_length=50), OneOrMore, AfterValidator(lambda tags: tuple(dict.fromkeys(tags)))
]


class Workdir(SpecModel):
    """The working directory of the job.

    On the server's machine the job runs in place, in the directory `path`, if `path` is absolute. With
    `snapshot` or `archive`, and on other machines, it runs in a copy of the uploaded files. `manifest` is the
    SHA-256 of an uploaded list of files; `archive` is that of an archive. `root` is the directory that was
    uploaded, if it is not `path`: the directory of a script outside of `path`.
    """

    path: Line | None = None
    snapshot: bool = False
    ignore: Annotated[tuple[Line, ...], Field(max_length=1000), OneOrMore] = ()
    subdir: Annotated[
        str, AfterValidator(lambda path: path and require_relative_path(path)), Field(max_length=1000)
    ] = ""
    archive: Sha256 | None = None
    manifest: Sha256 | None = None
    root: Line | None = None

    @property
    def has_copy(self) -> bool:
        """Whether files were uploaded, so that the job can run in a copy of them."""
        return self.archive is not None or self.manifest is not None

    @property
    def in_place(self) -> str | None:
        """The directory in which the job runs in place on the server's machine; None if it runs in a copy."""
        is_copy = self.snapshot or self.archive is not None
        return self.path if self.path and self.path.startswith("/") and not is_copy else None


class Dataset(SpecModel):
    """The data of the job: a path, a URL, or the name (and version) of a stored dataset.

    The client sets `parts` after it has uploaded the files at `path`: an archive, split into pieces.
    """

    path: Line | None = None
    url: Annotated[str, Field(max_length=4000)] | None = None
    name: (
        Annotated[
            Text,
            TextPattern(
                r"[A-Za-z0-9][A-Za-z0-9._/-]*",
                200,
                "is not a valid dataset name; use letters, digits, '.', '_', '/' and '-'",
            ),
        ]
        | None
    ) = None
    version: (
        Annotated[
            Text,
            TextPattern(
                r"[A-Za-z0-9][A-Za-z0-9._-]*",
                100,
                "is not a valid dataset version; use letters, digits, '.', '_' and '-'",
            ),
        ]
        | None
    ) = None
    parts: Annotated[tuple[Sha256, ...], Field(max_length=2000)] = ()

    @property
    def kind(self) -> Literal["path", "url", "name"]:
        return "path" if self.path is not None else "url" if self.url is not None else "name"

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        given = [key for key in ("path", "url", "name") if getattr(self, key) is not None]
        if len(given) != 1:
            raise FieldErrors(
                (
                    (),
                    ", ".join(given) or None,
                    "a dataset needs exactly one of path, url and name; set one of the three",
                )
            )
        if self.version is not None and self.name is None:
            raise FieldErrors(
                (
                    ("version",),
                    self.version,
                    "is allowed only together with 'name'; set 'name' to the name of the dataset",
                )
            )
        if self.parts and self.path is None:
            raise FieldErrors(
                (
                    ("parts",),
                    None,
                    "are allowed only together with 'path'; set 'path' to the path of the dataset",
                )
            )
        return self

    @model_validator(mode="after")
    def _check_scheme(self) -> Self:
        schemes = "|".join(shorthand.DATASET_SCHEMES)
        if self.url is not None and not re.fullmatch(rf"(?:{schemes})://[^\s\x00-\x1f]+", self.url):
            message = (
                "is not a supported URL; it must begin with one of "
                f"{', '.join(scheme + '://' for scheme in shorthand.DATASET_SCHEMES)}"
            )
            raise FieldErrors((("url",), self.url[:100], message))
        return self


class Checkpoint(SpecModel):
    """Checkpoints: which files to save, how often, and which arguments make the script resume from them."""

    aliases = shorthand.ALIASES["checkpoint"]

    every_s: Seconds = 300.0
    paths: Patterns = ()
    resume_args: Arguments = ()
    keep: Annotated[int, Field(ge=1, le=10_000), BeforeValidator(as_number)] = DEFAULT_RETRIES
    any_world_size: bool = False


def _parse_tracker(value: Any) -> bool | str:
    if isinstance(value, bool) or (isinstance(value, str) and 0 < len(value.strip()) <= 1000):
        return value
    raise ValueError(
        "is not valid for a tracker; write true, false, or the address, project or directory to report to"
    )


Tracker = Annotated[bool | str, BeforeValidator(_parse_tracker)]


class Track(SpecModel):
    """Experiment trackers to report to. A value is true, or the address, project or directory to use."""

    mlflow: Tracker = False
    wandb: Tracker = False
    tensorboard: Tracker = False
    tags: Tags = ()


class Notify(SpecModel):
    """Whom to notify, and of which events."""

    to: Line
    on: Annotated[
        tuple[Literal["started", "completed", "failed", "cancelled", "interrupted", "resumed"], ...],
        OneOrMore,
    ] = ("completed", "failed", "cancelled")

    @model_validator(mode="after")
    def _check_address(self) -> Self:
        if not re.fullmatch(r"https?://\S+|[^@\s]+@[^@\s]+\.[^@\s]+|[a-z][a-z0-9-]*:\S+", self.to):
            raise FieldErrors(
                (
                    ("to",),
                    self.to,
                    "is not an address for notifications; write an e-mail address, a webhook URL or 'slack:#channel'",
                )
            )
        return self
