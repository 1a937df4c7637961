"""Build the job document from the command line: a job file with options applied over it, or options alone."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from anygpu.errors import InvalidSpec, NotFound, Problem
from anygpu.spec.documents import SUFFIXES, Document, format_path, read_file
from anygpu.spec.flags import FIELDS, from_flags, over_document

# Our flags by the name the spec's flags have.
SPEC_FLAG_NAMES = {"checkpoint": "checkpoint_path", "resume_arg": "resume_args", "key": "idempotency_key"}
CLI_ONLY = {"no_workdir", "no_check", "detach", "dry_run", "sets"}


@dataclass(frozen=True, slots=True)
class JobRequest:
    document: Document
    sends_files: bool = True
    checks_dataset: bool = True


def build_job_request(target: Sequence[str], flags: Mapping[str, Any], *, is_command: bool) -> JobRequest:
    """The job that words and flags describe."""
    given = {SPEC_FLAG_NAMES.get(name, name): value for name, value in flags.items() if name not in CLI_ONLY}
    given["requirements"] = _requirements_value(flags["requirements"])
    base = _base_document(target, is_command)
    trains = bool(flags["trainer"] or base.data.get("trainer"))
    over = from_flags(given, [_trainer_setting(text) if trains else text for text in flags["sets"]])
    return JobRequest(
        _with_name(over_document(base, over)),
        sends_files=not flags["no_workdir"],
        checks_dataset=not flags["no_check"],
    )


def find_script(data: Mapping[str, Any]) -> Path | None:
    """Where the job's script lies on this machine; NotFound when it does not, None for a job without one."""
    script = data.get("script")
    if not script:
        return None
    places = [_workdir_path(data) / str(script), Path(str(script)).expanduser()]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise NotFound(
            f"There is no script {script!r}.", hint="Check the path; it is relative to this directory."
        )
    return found


def check_requirements_file(data: Mapping[str, Any]) -> None:
    """NotFound when the job names a file of requirements that does not lie here."""
    named = data.get("requirements")
    if not isinstance(named, str) or not named:
        return
    script = find_script(data)
    roots = [_workdir_path(data), *([script.parent] if script else [])]
    if not any((root / named).is_file() for root in roots):
        hint = "Check the path; it is relative to the directory that travels with the job."
        raise NotFound(f"There is no requirements file {named!r}.", hint=hint)


def with_relative_script(document: Document) -> tuple[Document, Path]:
    """The job with its script named from the directory that travels, and that directory."""
    script, root = find_script(document.data), _workdir_path(document.data).resolve()
    if script is None:
        return document, root
    if not script.resolve().is_relative_to(root):
        root = script.resolve().parent
    name = script.resolve().relative_to(root).as_posix()
    return replace(document, data={**document.data, "script": name}), root


def _workdir_path(data: Mapping[str, Any]) -> Path:
    workdir = data.get("workdir")
    said = workdir.get("path") if isinstance(workdir, Mapping) else workdir
    return Path(str(said or ".")).expanduser()


def _trainer_setting(text: str) -> str:
    """`target=species` is no field of the spec: it is a setting of the trainer."""
    path = text.partition("=")[0].strip()
    return text if "." in path or path in FIELDS else f"config.{text}"


def _with_name(document: Document) -> Document:
    """A job without a name is called like what it runs, so that `anygpu logs train` finds it."""
    data = document.data
    command = data.get("command")
    runs = (
        data.get("script")
        or _trainer_name(data)
        or (command[0] if isinstance(command, list) and command else "")
    )
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(str(runs)).stem).strip("._-")[:100]
    if data.get("name") or not name or name == "last":
        return document
    return replace(document, data={**data, "name": name})


def _trainer_name(data: Mapping[str, Any]) -> str:
    """Its name, or the file it lies in."""
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
        raise NotFound(f"{first!r} is a directory.", hint="Name the script or the job file in it.")
    raise NotFound(
        f"{first!r} is neither a Python script nor a job file.",
        hint=f"Run any other command with `anygpu run -- {first} …`.",
    )


def _job_file_document(path: Path, args: list[str]) -> Document:
    if not path.is_file():
        raise NotFound(f"There is no job file {str(path)!r}.", hint="Check the path.")
    document = read_file(path)
    base = (
        {"workdir": _workdir_beside(path, document.data.get("workdir"))} if _runs_files(document.data) else {}
    )
    extra = {"args": args} if args else {}
    return replace(document, data={**document.data, **_dataset_beside(path, document.data), **base, **extra})


def _runs_files(data: Mapping[str, Any]) -> bool:
    own = _trainer_name(data).endswith(".py")
    return bool(data.get("script") or data.get("command") or data.get("workdir") or own)


def _workdir_beside(path: Path, workdir: Any) -> Any:
    """A job file speaks of paths from where it lies, wherever the command is typed."""
    described = dict(workdir) if isinstance(workdir, Mapping) else {"path": workdir or "."}
    described["path"] = str((path.parent / str(described.get("path") or ".")).resolve())
    return described


def _dataset_beside(path: Path, data: Mapping[str, Any]) -> dict[str, Any]:
    """The dataset, where it lies beside the job file and that is not here. Any other name stays as it is."""
    said = data.get("dataset")
    name = said.get("path") if isinstance(said, Mapping) else said
    if not isinstance(name, str) or path.parent == Path() or not (path.parent / name).exists():
        return {}
    return {"dataset": {**(said if isinstance(said, Mapping) else {}), "path": str(path.parent / name)}}


def _requirements_value(given: Sequence[str]) -> Any:
    """One name of a file is that file; anything else are requirements."""
    if len(given) == 1 and (given[0].endswith((".txt", ".in")) or Path(given[0]).is_file()):
        return given[0]
    return list(given) or None


def with_file_positions(error: InvalidSpec, document: Document) -> InvalidSpec:
    """The server's problems with the file and line each place stands on here."""
    return InvalidSpec([_with_file_position(problem, document) for problem in error.problems])


def _with_file_position(problem: Problem, document: Document) -> Problem:
    line = next((line for place, line in document.lines.items() if format_path(place) == problem.place), None)
    return replace(problem, source=document.source if line else "", line=line)
