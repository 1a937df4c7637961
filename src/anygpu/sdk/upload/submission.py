"""Prepare a spec for submission: check the trainer's data, attach the working directory, upload the dataset."""

import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from anygpu.errors import AnygpuError, InvalidSpec, NeedsSnapshot, Problem, TooLarge
from anygpu.sdk.client import Client
from anygpu.sdk.upload.snapshots import OpenProgress, no_progress
from anygpu.sdk.upload.workdir import (
    asks_for_other_backends,
    attach_workdir,
    has_uploaded_files,
    runs_only_elsewhere,
    with_snapshot,
)

if TYPE_CHECKING:  # importing pydantic is slow, so it is imported only where a spec is parsed
    from anygpu.spec.jobspec import JobSpec


def check_training(spec: Mapping[str, Any]) -> None:
    """Raise InvalidSpec if there are problems in a trainer's settings, or in its dataset on this computer."""
    from anygpu.spec import from_mapping
    from anygpu.spec.checks.trainer import trainer_problems

    try:
        job = from_mapping(spec)
    except AnygpuError:
        return  # the rest of the spec has problems, which the server reports
    problems = [*trainer_problems(job)] or [*dataset_problems(job)]
    if problems:
        raise InvalidSpec(problems)


def dataset_problems(spec: "JobSpec") -> list[Problem]:
    """Return the problems of a trainer's dataset; an empty list if the dataset is not on this computer."""
    from anygpu.trainers import registry
    from anygpu.trainers.errors import BadDataset, MissingExtra

    path = Path(spec.dataset.path).expanduser() if spec.dataset and spec.dataset.path else None
    if path is None or spec.trainer is None or not registry.is_built_in(spec.trainer):
        return []
    if not path.exists():
        where = "" if path.is_absolute() else f" in {Path.cwd()}"
        return [
            Problem(
                "dataset", str(path), f"there is no file or directory {str(path)!r}{where}; check the path"
            )
        ]
    try:
        kind = registry.find(spec.trainer)
        kind.check_dataset(kind.parse_settings(spec.config), path)
    except BadDataset as error:
        return [Problem("dataset", str(each.path), str(each)) for each in error.findings[: error.SHOWN]]
    except (ImportError, MissingExtra):
        return []  # the trainer's packages are not installed here; the job checks again
    return []


PART_BYTES = 64 << 20


def attach_dataset(client: Client, spec: dict[str, Any], *, server_is_local: bool) -> dict[str, Any]:
    """Return the spec with its dataset uploaded.

    The dataset is uploaded only if it is a path on this computer and the job may run elsewhere.
    """
    path = _dataset_path(spec.get("dataset"))
    if path is None or (server_is_local and not asks_for_other_backends(spec)):
        return spec
    try:
        return {**spec, "dataset": {"path": str(path), "parts": upload_dataset(client, path)}}
    except TooLarge:
        if runs_only_elsewhere(spec):
            raise
        return spec  # too large to upload: usable on this computer; elsewhere the job reports missing data


def upload_dataset(client: Client, path: Path, part_bytes: int = PART_BYTES) -> list[str]:
    from anygpu.spec.workdir import pack_data

    sent = []
    with pack_data(path) as archive, archive.path.open("rb") as file:
        for piece in _parts(file, part_bytes):
            sent.append(hashlib.sha256(piece).hexdigest())
            client.upload(sent[-1], piece)
    return sent


def _dataset_path(dataset: Any) -> Path | None:
    """Return the dataset's path; None if it is not on this computer or was already uploaded."""
    if isinstance(dataset, Mapping):
        name = None if dataset.get("parts") else dataset.get("path")
    else:
        name = dataset if isinstance(dataset, str) and "://" not in dataset else None
    path = Path(str(name)).expanduser().absolute() if name else None
    return path if path is not None and path.exists() else None


def _parts(file: IO[bytes], size: int) -> Iterator[bytes]:
    while piece := file.read(size):
        yield piece


def prepare_spec(
    client: Client,
    spec: Mapping[str, Any],
    *,
    workdir: str | Path | None = None,
    server_is_local: bool = False,
    check: bool = True,
    open_progress: OpenProgress = no_progress,
    note: Callable[[str], None] = lambda text: None,
    runs_elsewhere: bool = False,
) -> dict[str, Any]:
    """Upload the files of a job and return the spec, ready to submit.

    `server_is_local`: the server runs on this computer and can use its paths. `check`: check the trainer's
    settings and dataset before uploading. `open_progress` shows the progress of uploads; `note` gets
    messages for the user. `runs_elsewhere`: another machine runs the job, so it needs a copy of the dataset.
    """
    ready = dict(spec)
    if check and ready.get("trainer"):
        check_training(ready)
    if server_is_local:
        ready = _with_local_paths(ready)
    chosen = None if workdir is None else Path(workdir)
    ready = attach_workdir(
        client, ready, chosen, server_is_local=server_is_local, open_progress=open_progress, note=note
    )
    return attach_dataset(client, ready, server_is_local=server_is_local and not runs_elsewhere)


def submit_job(
    client: Client,
    spec: Mapping[str, Any],
    submit: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Prepare a job (`options` are those of `prepare_spec`), and submit it with `submit`, by default `client.submit`.

    If the job would run in place on a machine that cannot run it, its files are uploaded for another machine.
    """
    send = submit or client.submit
    try:
        return send(prepare_spec(client, spec, **options))
    except NeedsSnapshot:
        return send(prepare_spec(client, with_snapshot(spec), runs_elsewhere=True, **options))


# Files that `uv tool install` and pipx write to the environments they create for a tool.
TOOL_MARKERS = ("uv-receipt.toml", "pipx_metadata.json")


def find_interpreter(environ: Mapping[str, str] = os.environ, prefix: str = sys.prefix) -> str:
    """Return the user's Python: the one of the active virtual or conda environment, else the one that runs anygpu.

    If anygpu was installed as a tool, its own environment (`prefix`) has no packages of the user. Then the
    Python on PATH is returned.
    """
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        python = Path(environ.get(variable, "")) / "bin" / "python"
        if environ.get(variable) and python.exists():
            return str(python)
    if any(Path(prefix, marker).exists() for marker in TOOL_MARKERS):
        from shutil import which

        path = environ.get("PATH", os.defpath)
        return which("python", path=path) or which("python3", path=path) or sys.executable
    return sys.executable


def _with_local_paths(spec: dict[str, Any]) -> dict[str, Any]:
    # A trainer runs with the server's interpreter, where anygpu's extras are installed.
    # Files that are uploaded already come from elsewhere, so the user's Python here is not meant for them.
    named = any(spec.get(key) for key in ("image", "python", "trainer"))
    if not named and not has_uploaded_files(spec):
        spec = {**spec, "python": find_interpreter()}
    data = spec.get("dataset")
    if isinstance(data, str) and "://" not in data and Path(data).exists():
        spec = {**spec, "dataset": {"path": str(Path(data).absolute())}}
    elif isinstance(data, Mapping) and data.get("path"):
        spec = {**spec, "dataset": {**data, "path": str(Path(data["path"]).absolute())}}
    return spec
