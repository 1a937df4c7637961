"""Build the job document from the command line: a job file with options applied over it, or options alone."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from anygpu.errors import InvalidSpec, NotFound, Problem
from anygpu.spec.documents import SUFFIXES, Document, format_path, read_file
from anygpu.spec.flags import FIELDS, from_flags, over_document
from anygpu.spec.shorthand import long_form

# CLI options whose names differ from the names that anygpu.spec.flags uses.
SPEC_FLAG_NAMES = {"checkpoint": "checkpoint_path", "resume_arg": "resume_args", "key": "idempotency_key"}
CAPTURE = "auto"  # the requirement that stands for the packages of the user's Python
CLI_ONLY = {"no_workdir", "no_check", "detach", "dry_run", "raw", "sets"}


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A job as described on the command line, with the options for its submission."""

    document: Document
    sends_files: bool = True
    checks_dataset: bool = True
    notes: tuple[str, ...] = ()  # messages for the user


def build_job_request(target: Sequence[str], flags: Mapping[str, Any], *, is_command: bool) -> JobRequest:
    """Build the job from the positional arguments and the options of `anygpu run`."""
    options = {
        SPEC_FLAG_NAMES.get(name, name): value for name, value in flags.items() if name not in CLI_ONLY
    }
    options["requirements"] = _requirements_value(flags["requirements"])
    base = _base_document(target, is_command)
    trains = bool(flags["trainer"] or base.data.get("trainer"))
    over = from_flags(options, [_trainer_setting(text) if trains else text for text in flags["sets"]])
    document, notes = _with_captured_packages(_with_name(over_document(base, over)))
    return JobRequest(
        document,
        sends_files=not flags["no_workdir"],
        checks_dataset=not flags["no_check"],
        notes=tuple(notes),
    )


def _with_captured_packages(document: Document) -> tuple[Document, list[str]]:
    """Replace the requirement `auto` by the packages of the user's Python."""
    given = document.data.get("requirements")
    words = [given] if isinstance(given, str) else list(given or ())
    if CAPTURE not in words:
        return document, []
    from anygpu.sdk.upload.packages import capture_packages
    from anygpu.sdk.upload.submission import find_interpreter

    python = str(document.data.get("python") or find_interpreter())
    captured = capture_packages(python, _workdir_path(document.data))
    others = [word for word in words if word != CAPTURE]
    data = {**document.data, "requirements": [*captured.requirements, *others]}
    return replace(document, data=data), captured.notes


def find_script(data: Mapping[str, Any]) -> Path | None:
    """Return the path of the job's script; None for a job without a script.

    Raise NotFound if the file does not exist.
    """
    script = data.get("script")
    if not script:
        return None
    candidates = [_workdir_path(data) / str(script), Path(str(script)).expanduser()]
    path = next((each for each in candidates if each.is_file()), None)
    if path is None:
        raise NotFound(
            f"There is no script {script!r}.",
            hint="Check the path; it is relative to the current directory.",
        )
    return path


def check_requirements_file(data: Mapping[str, Any]) -> None:
    """Raise NotFound if the job names a requirements file that does not exist."""
    name = data.get("requirements")
    if not isinstance(name, str) or not name:
        return
    script = find_script(data)
    roots = [_workdir_path(data), *([script.parent] if script else [])]
    if not any((root / name).is_file() for root in roots):
        hint = "Check the path; it is relative to the job's working directory."
        raise NotFound(f"There is no requirements file {name!r}.", hint=hint)


def check_dataset_path(data: Mapping[str, Any]) -> None:
    """Raise NotFound if the dataset is a relative path that does not exist.

    An absolute path may exist only on the machine that runs the job.
    """
    dataset = long_form("dataset", data.get("dataset"))
    path = dataset.get("path") if isinstance(dataset, Mapping) and not dataset.get("parts") else None
    if isinstance(path, str) and not Path(path).expanduser().is_absolute() and not Path(path).exists():
        raise NotFound(
            f"There is no dataset {path!r}.", hint="Check the path; it is relative to the current directory."
        )


def with_relative_script(document: Document) -> tuple[Document, Path]:
    """Make the script's path relative to the directory with the code. Return the document and that directory.

    The document then has no working directory on this computer, so a plan with it compares all machines.
    """
    script, root = find_script(document.data), _workdir_path(document.data).resolve()
    data = dict(document.data)
    if isinstance(workdir := data.pop("workdir", None), Mapping):
        data["workdir"] = {key: value for key, value in workdir.items() if key not in ("path", "snapshot")}
    if script is None:
        return replace(document, data=data), root
    if not script.resolve().is_relative_to(root):
        root = script.resolve().parent
    name = script.resolve().relative_to(root).as_posix()
    return replace(document, data={**data, "script": name}), root


def _workdir_path(data: Mapping[str, Any]) -> Path:
    workdir = data.get("workdir")
    path = workdir.get("path") if isinstance(workdir, Mapping) else workdir
    return Path(str(path or ".")).expanduser()


def home_directory(data: Mapping[str, Any]) -> Path:
    """Return the directory on this computer that corresponds to the job's working directory."""
    workdir = data.get("workdir")
    subdir = workdir.get("subdir") if isinstance(workdir, Mapping) else None
    return _workdir_path(data) / str(subdir or "")


def _trainer_setting(text: str) -> str:
    """Turn `target=species` into `config.target=species`, unless `target` is a field of the spec."""
    path = text.partition("=")[0].strip()
    return text if "." in path or path in FIELDS else f"config.{text}"


def _with_name(document: Document) -> Document:
    """Name an unnamed job after its script, trainer or command, so that `anygpu logs train` finds it."""
    data = document.data
    command = data.get("command")
    runs = (
        data.get("script")
        or _trainer_name(data)
        or (command[0] if isinstance(command, list) and command else "")
    )
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(str(runs)).stem).strip("._-")[:100]
    is_unnamed = "name" in data and data["name"] is None  # `name: null` asks for a job without a name
    if data.get("name") or is_unnamed or not name or name == "last":
        return document
    return replace(document, data={**data, "name": name})


def _trainer_name(data: Mapping[str, Any]) -> str:
    """Return the trainer's name, or the name of the file that defines the trainer."""
    return str(data.get("trainer") or "").partition(":")[0]


def _base_document(target: Sequence[str], is_command: bool) -> Document:
    if not target:
        return Document({}, "command line")
    first, rest = target[0], list(target[1:])
    if is_command:
        return Document({"command": list(target)}, "command line")
    if Path(first).suffix.lower() in SUFFIXES:
        return _job_file_document(Path(first), rest)
    if first.endswith(".py"):
        return Document({"script": first, **({"args": rest} if rest else {})}, "command line")
    if first and Path(first).is_dir():
        raise NotFound(f"{first!r} is a directory.", hint="Name a script or a job file in it.")
    raise NotFound(
        f"{first!r} is neither a Python script nor a job file.",
        hint=f"To run a command, use `anygpu run -- {first} …`.",
    )


def _job_file_document(path: Path, args: list[str]) -> Document:
    if not path.is_file():
        raise NotFound(f"There is no job file {str(path)!r}.", hint="Check the path.")
    from anygpu.sdk.upload.workdir import has_uploaded_files

    document = read_file(path)
    needs_directory = _runs_files(document.data) and not has_uploaded_files(document.data)
    base = {"workdir": _workdir_beside(path, document.data.get("workdir"))} if needs_directory else {}
    extra = {"args": args} if args else {}
    return replace(document, data={**document.data, **_dataset_beside(path, document.data), **base, **extra})


def _runs_files(data: Mapping[str, Any]) -> bool:
    own = _trainer_name(data).endswith(".py")
    return bool(data.get("script") or data.get("command") or data.get("workdir") or own)


def _workdir_beside(path: Path, workdir: Any) -> Any:
    """Return the job file's `workdir` as a path relative to the directory of the job file."""
    described = dict(workdir) if isinstance(workdir, Mapping) else {"path": workdir or "."}
    described["path"] = str((path.parent / str(described.get("path") or ".")).resolve())
    return described


def _dataset_beside(path: Path, data: Mapping[str, Any]) -> dict[str, Any]:
    """Resolve the job file's dataset relative to the job file's directory, if the dataset exists there."""
    dataset = data.get("dataset")
    name = dataset.get("path") if isinstance(dataset, Mapping) else dataset
    if not isinstance(name, str) or path.parent == Path() or not (path.parent / name).exists():
        return {}
    return {"dataset": {**(dataset if isinstance(dataset, Mapping) else {}), "path": str(path.parent / name)}}


def _requirements_value(values: Sequence[str]) -> Any:
    """Return the path if `values` is a single requirements file, else the list of requirements."""
    if len(values) == 1 and (values[0].endswith((".txt", ".in")) or Path(values[0]).is_file()):
        return values[0]
    return list(values) or None


def with_file_positions(error: InvalidSpec, document: Document) -> InvalidSpec:
    """Add the job file's name and line numbers to the problems that the server reported."""
    return InvalidSpec([_with_file_position(problem, document) for problem in error.problems])


def _with_file_position(problem: Problem, document: Document) -> Problem:
    line = next((line for place, line in document.lines.items() if format_path(place) == problem.place), None)
    return replace(problem, source=document.source if line else "", line=line)
