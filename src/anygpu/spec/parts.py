"""The job's working directory, data, checkpoints, tracking and notices."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from anygpu.spec import shorthand
from anygpu.spec.fields import (
    InsidePath,
    Line,
    Matches,
    Part,
    Seconds,
    Several,
    Tag,
    Text,
    Trouble,
    as_number,
    inside,
)

Sha256 = Annotated[str, Matches(r"[0-9a-f]{64}", 64, "is not a SHA-256 in lower-case hexadecimal")]
Arguments = Annotated[tuple[Text, ...], Field(max_length=5000), BeforeValidator(shorthand.words)]
Patterns = Annotated[tuple[InsidePath, ...], Field(max_length=200), Several]
Tags = Annotated[
    tuple[Tag, ...], Field(max_length=50), Several, AfterValidator(lambda tags: tuple(dict.fromkeys(tags)))
]


class Workdir(Part):
    """The directory that travels with the job. `archive` is set by the server once it has been uploaded."""

    path: Line | None = None
    ignore: Annotated[tuple[Line, ...], Field(max_length=1000), Several] = ()
    subdir: Annotated[str, AfterValidator(lambda path: path and inside(path)), Field(max_length=1000)] = ""
    archive: Sha256 | None = None


class Dataset(Part):
    """The data the job reads: exactly one of a path, a URL, or the name (and version) of a stored dataset.

    `parts` are set by the client once it has sent what lies at the path: an archive, cut into pieces.
    """

    path: Line | None = None
    url: Annotated[str, Field(max_length=4000)] | None = None
    name: Annotated[Text, Matches(r"[A-Za-z0-9][A-Za-z0-9._/-]*", 200, "is not a dataset's name")] | None = (
        None
    )
    version: (
        Annotated[Text, Matches(r"[A-Za-z0-9][A-Za-z0-9._-]*", 100, "is not a dataset's version")] | None
    ) = None
    parts: Annotated[tuple[Sha256, ...], Field(max_length=2000)] = ()

    @property
    def kind(self) -> Literal["path", "url", "name"]:
        return "path" if self.path is not None else "url" if self.url is not None else "name"

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = [key for key in ("path", "url", "name") if getattr(self, key) is not None]
        if len(given) != 1:
            raise Trouble(((), ", ".join(given) or None, "give exactly one of path, url and name"))
        if self.version is not None and self.name is None:
            raise Trouble((("version",), self.version, "belongs to a named dataset; give its name too"))
        if self.parts and self.path is None:
            raise Trouble((("parts",), None, "belong to a path; give it too"))
        return self

    @model_validator(mode="after")
    def _known_scheme(self) -> Self:
        known = "|".join(shorthand.DATASET_SCHEMES)
        if self.url is not None and not re.fullmatch(rf"(?:{known})://[^\s\x00-\x1f]+", self.url):
            said = f"is not a URL that can be read; use {', '.join(shorthand.DATASET_SCHEMES)}"
            raise Trouble((("url",), self.url[:100], said))
        return self


class Checkpoint(Part):
    """What to save while training, how often, and how to start the script again from it."""

    friendly = shorthand.FRIENDLY["checkpoint"]

    every_s: Seconds = 300.0
    paths: Patterns = ()
    resume_args: Arguments = ()
    keep: Annotated[int, Field(ge=1, le=10_000), BeforeValidator(as_number)] = 3


def _tracker(value: Any) -> bool | str:
    if isinstance(value, bool) or (isinstance(value, str) and 0 < len(value.strip()) <= 1000):
        return value
    raise ValueError("is neither true or false nor an address, project or directory")


Tracker = Annotated[bool | str, BeforeValidator(_tracker)]


class Track(Part):
    """Experiment trackers to tell: true, or the address, project or directory to use."""

    mlflow: Tracker = False
    wandb: Tracker = False
    tensorboard: Tracker = False
    tags: Tags = ()


class Notify(Part):
    """Whom to tell, and of what."""

    to: Line
    on: Annotated[
        tuple[Literal["started", "completed", "failed", "cancelled", "interrupted", "resumed"], ...], Several
    ] = ("completed", "failed", "cancelled")

    @model_validator(mode="after")
    def _an_address(self) -> Self:
        if not re.fullmatch(r"https?://\S+|[^@\s]+@[^@\s]+\.[^@\s]+|[a-z][a-z0-9-]*:\S+", self.to):
            raise Trouble(
                (
                    ("to",),
                    self.to,
                    "is not an address; write an e-mail address, a web hook's URL or 'slack:#channel'",
                )
            )
        return self
