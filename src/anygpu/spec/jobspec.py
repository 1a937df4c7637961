"""JobSpec: the complete, immutable description of a job."""

import posixpath
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, model_validator

from anygpu.spec import shorthand
from anygpu.spec.fields import (
    FieldErrors,
    Line,
    OneOrMore,
    SpecModel,
    Text,
    TextInput,
    TextPattern,
    as_number,
    as_text,
    path_fault,
    require_relative_path,
)
from anygpu.spec.normalize import Finding
from anygpu.spec.sections import (
    Arguments,
    Checkpoint,
    Dataset,
    Limits,
    Notify,
    Patterns,
    Placement,
    Resources,
    Tags,
    Track,
    Workdir,
)

Kind = Literal["script", "command", "trainer", "code"]
KINDS: tuple[Kind, ...] = ("script", "command", "trainer", "code")
RESERVED_NAMES = ("last",)
RESERVED_ENV = "ANYGPU_"

_ENV = r"[A-Za-z_][A-Za-z0-9_]*"
_ENV_MESSAGE = (
    "is not a valid name of an environment variable; use letters, digits and _, and do not start with a digit"
)


def _check_job_name(name: str) -> str:
    if name in RESERVED_NAMES:
        raise ValueError(
            "cannot be the name of a job, because commands use it for the newest job; choose another name"
        )
    return name


def _check_variable_name(name: str) -> str:
    if name.startswith(RESERVED_ENV):
        raise ValueError(
            f"cannot be set, because anygpu itself sets the variables that begin with {RESERVED_ENV}; choose "
            "another name"
        )
    return name


def _check_script(path: str) -> str:
    if path.startswith("-"):
        raise ValueError("starts with '-', which Python reads as an option; write './-name.py'")
    return path


def _parse_trainer(name: str) -> str:
    """Parse the `trainer` field.

    The value is the name of a trainer such as `yolo`, or a class in a file of the working directory, such as
    `./my_trainer.py:Mine`.
    """
    file, colon, kind = name.partition(":")
    if file.endswith(".py"):
        if not kind.isidentifier():
            raise ValueError(f"does not name a class in the file; write {file}:MyTrainer")
        return f"{require_relative_path(file)}:{kind}"
    if colon or name.startswith("."):
        raise ValueError("is not a valid trainer name; write a trainer in a file as ./my_trainer.py:Mine")
    return name


def _parse_command(value: Any) -> Any:
    if isinstance(value, str):
        if not value.strip():
            raise ValueError("is empty; write the command to run")
        return value
    if not isinstance(value, list | tuple) or not 0 < len(value) <= 5000:
        raise ValueError("is not a command; write a shell command as a string, or a list of 1 to 5000 words")
    words = tuple(as_text(word) for word in value)
    if not all(isinstance(word, str) for word in words):
        raise ValueError("is not a command; write every item of the list as a string")
    return words


def _parse_requirements(value: Any) -> Any:
    """Parse the path of a requirements file, or a list of requirements."""
    if isinstance(value, str):
        return _check_requirements_file(value)
    if not isinstance(value, list | tuple) or not all(
        isinstance(line, str) and line.strip() for line in value
    ):
        raise ValueError(
            "is neither the path of a requirements file nor a list of requirements; write 'requirements.txt' "
            "or ['numpy==2.0']"
        )
    if len(value) > 1000:
        raise ValueError("has more than 1000 requirements; put them in a file and give its path")
    if any("\n" in line or len(line) > 1000 for line in value):
        raise ValueError(
            "has a requirement with a line break or more than 1000 characters; write one requirement per item"
        )
    return tuple(value)


def _check_requirements_file(path: str) -> str:
    if any(mark in path for mark in "=<>~\n"):
        raise ValueError("is not the path of a requirements file; put requirements in a list: ['numpy==2.0']")
    return require_relative_path(path)


def _check_python_version(value: Any) -> Any:
    if isinstance(value, float):
        raise ValueError(
            "is a number, so that 3.10 would become 3.1; write the version in quotation marks: '3.10'"
        )
    return as_text(value)


Name = Annotated[
    Text,
    TextPattern(
        r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?",
        100,
        "is not a valid job name; use letters, digits, '.', '_' and '-', and a letter or digit at both ends",
    ),
    AfterValidator(_check_job_name),
]
EnvName = Annotated[str, TextPattern(_ENV, 200, _ENV_MESSAGE), AfterValidator(_check_variable_name)]
SecretName = Annotated[
    str,
    TextPattern(
        r"[A-Za-z0-9_][A-Za-z0-9_./-]*",
        200,
        "is not a valid secret name; use letters, digits, '_', '.', '/' and '-'",
    ),
]
EnvValue = Annotated[Text, Field(max_length=65_536)]
ResumeFrom = Annotated[
    Text,
    TextPattern(
        r"[A-Za-z0-9][A-Za-z0-9._-]*(?:@[0-9]{1,18})?",
        200,
        "is not a job to resume; write a job's id or name, or 'job@step'",
    ),
]
Image = Annotated[
    str,
    TextPattern(
        r"[A-Za-z0-9][A-Za-z0-9._/:@-]*",
        500,
        "is not a valid container image name; write it as 'repository/name:tag'",
    ),
]


class JobSpec(SpecModel):
    """A job: what to run (exactly one of `script`, `command`, `trainer` and `code`), and how and where to run it."""

    script: Annotated[Line, AfterValidator(_check_script)] | None = None
    args: Arguments = ()
    command: (
        Annotated[
            str | tuple[str, ...],
            BeforeValidator(_parse_command, json_schema_input_type=str | tuple[TextInput, ...]),
        ]
        | None
    ) = None
    trainer: (
        Annotated[
            Text,
            TextPattern(r"[A-Za-z0-9.][A-Za-z0-9._/:-]*", 200, "is not a valid trainer name"),
            AfterValidator(_parse_trainer),
        ]
        | None
    ) = None
    config: dict[str, JsonValue] = Field(default_factory=dict)
    code: Annotated[str, Field(min_length=1)] | None = None

    name: Name | None = None
    tags: Tags = ()
    env: Annotated[dict[EnvName, EnvValue], Field(max_length=500)] = Field(default_factory=dict)
    secrets: Annotated[
        dict[EnvName, SecretName], Field(max_length=200), BeforeValidator(shorthand.secrets)
    ] = Field(default_factory=dict)

    workdir: Annotated[Workdir, BeforeValidator(shorthand.workdir)] | None = None
    setup: Annotated[tuple[Annotated[Text, Field(min_length=1)], ...], Field(max_length=200), OneOrMore] = ()
    requirements: Annotated[str | tuple[str, ...], BeforeValidator(_parse_requirements)] = ()
    image: Image | None = None
    python: Annotated[Line, BeforeValidator(_check_python_version)] | None = None
    dataset: Annotated[Dataset, BeforeValidator(shorthand.dataset)] | None = None
    outputs: Patterns = ()
    checkpoint: Checkpoint = Checkpoint()
    resume_from: ResumeFrom | None = None

    resources: Resources = Resources()
    launcher: Literal["none", "torchrun"] = "none"
    processes_per_node: Annotated[int, Field(ge=1, le=1024), BeforeValidator(as_number)] | None = None
    limits: Limits = Limits()
    placement: Placement = Placement()
    track: Track = Track()
    notify: Annotated[tuple[Notify, ...], Field(max_length=20), BeforeValidator(shorthand.notify)] = ()
    priority: Annotated[int, Field(ge=-1000, le=1000), BeforeValidator(as_number)] = 0
    idempotency_key: Annotated[Line, Field(max_length=200)] | None = None

    @property
    def kind(self) -> Kind:
        """The field that says what to run: `script`, `command`, `trainer` or `code`."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def local_processes(self) -> int:
        """How many processes of the job a node runs: 1 without a launcher, else one for each GPU by default."""
        if self.launcher == "none":
            return 1
        gpu = self.resources.gpu
        return self.processes_per_node or max(1, gpu.count if gpu else 1)

    @property
    def world_size(self) -> int:
        """How many processes the job has on all its nodes."""
        return self.resources.nodes * self.local_processes

    @property
    def trainer_file(self) -> str | None:
        """Path of the trainer's file in the working directory, or None if the job has no trainer of its own."""
        file = (self.trainer or "").partition(":")[0]
        return file if file.endswith(".py") else None

    @property
    def in_place(self) -> str | None:
        """The directory in which the job runs in place on the server's machine; None if it runs in a copy."""
        return self.workdir.in_place if self.workdir is not None else None

    @property
    def is_only_in_place(self) -> bool:
        """Whether the job can run only in place, because its files were not uploaded."""
        return self.in_place is not None and not (self.workdir is not None and self.workdir.has_copy)

    @property
    def script_in_copy(self) -> str | None:
        """The script's path in a copy of the working directory; None if the script is not in the copy."""
        path, workdir = self.script, self.workdir
        root = workdir and (workdir.root or workdir.path)
        if path is not None and workdir is not None and workdir.path is not None and root:
            is_outside = workdir.root is not None or posixpath.isabs(path)
            path = posixpath.relpath(posixpath.join(workdir.path, path), root) if is_outside else path
        return None if path is None or path_fault(path) else path

    @property
    def names_place_or_budget(self) -> bool:
        """Whether the spec names a strategy other than `queue`, a backend, a location, a machine type or a budget."""
        placement = self.placement
        return (
            placement.strategy not in (None, "queue")
            or bool(placement.allowed_backends or placement.fallbacks)
            or bool(placement.region or placement.zone or placement.instance_type)
            or self.limits.max_cost_microusd is not None
        )

    @property
    def resume_job(self) -> str | None:
        return self.resume_from.partition("@")[0] if self.resume_from else None

    @property
    def resume_step(self) -> int | None:
        step = self.resume_from.partition("@")[2] if self.resume_from else ""
        return int(step) if step else None

    def with_archive(self, sha256: str) -> "JobSpec":
        """Return a copy of the spec that refers to the uploaded working directory by its `sha256`."""
        workdir = (self.workdir or Workdir()).model_copy(update={"archive": sha256})
        return self.model_copy(update={"workdir": workdir})

    @model_validator(mode="after")
    def _check_conflicts(self) -> Self:
        findings = tuple(find_conflicts(self.model_dump(include={*KINDS, *_FIELDS_IN_CONFLICTS})))
        if findings:
            raise FieldErrors(*findings)
        return self


_FIELDS_IN_CONFLICTS = ("args", "config", "image", "requirements", "launcher", "processes_per_node")


def find_conflicts(data: Mapping[str, Any]) -> list[Finding]:
    """Return the conflicts between fields.

    Accepts also a mapping that is not validated yet, so that conflicts are reported together with other
    problems.
    """
    given = [kind for kind in KINDS if data.get(kind) is not None]
    conflicts: list[Finding] = []
    if len(given) != 1:
        both = f", not {' and '.join(given)}" if given else ""
        conflicts.append(((), None, f"give exactly one of script, command, trainer and code{both}"))
    if data.get("args") and given and "script" not in given:
        conflicts.append(
            (("args",), None, f"are allowed only together with 'script'; put the arguments in {given[0]!r}")
        )
    if data.get("config") and given and "trainer" not in given:
        conflicts.append(
            (
                ("config",),
                None,
                "is allowed only together with 'trainer'; pass values to a script with args or env",
            )
        )
    if data.get("image") and data.get("requirements"):
        conflicts.append(
            (
                ("requirements",),
                None,
                "cannot be combined with 'image'; install packages in the container with 'setup' commands",
            )
        )
    if data.get("processes_per_node") is not None and data.get("launcher", "none") == "none":
        conflicts.append(
            (
                ("processes_per_node",),
                None,
                "is allowed only together with 'launcher: torchrun'; without a launcher, each node runs one process",
            )
        )
    return conflicts
