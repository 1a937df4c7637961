"""Prepare a spec for submission: check the trainer's data, upload the working directory and the dataset."""

import hashlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from anygpu.errors import AnygpuError, InvalidSpec, NotFound, Problem, TooLarge, UnsafePath
from anygpu.sdk.client import Client

if TYPE_CHECKING:  # importing pydantic is slow, so it is imported only where a spec is parsed
    from anygpu.spec.jobspec import JobSpec


def check_training(spec: Mapping[str, Any]) -> None:
    """Raise InvalidSpec if there are problems in a trainer's settings, or in its dataset on this computer."""
    from anygpu.spec import from_mapping
    from anygpu.spec.trainer_check import trainer_problems

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
LOCAL = "local"
STRATEGIES = ("cheapest", "fastest", "balanced")


def attach_dataset(client: Client, spec: dict[str, Any], *, server_is_local: bool) -> dict[str, Any]:
    """Return the spec with its dataset uploaded.

    The dataset is uploaded only if it is a path on this computer and the job may run elsewhere.
    """
    path = _dataset_path(spec.get("dataset"))
    if path is None or not (runs_only_elsewhere(spec) or may_run_elsewhere(spec, server_is_local)):
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


def runs_only_elsewhere(spec: Mapping[str, Any]) -> bool:
    """Return whether the spec lists its allowed backends and `local` is not among them."""
    allowed = set(_placement(spec).get("allowed") or ())
    return bool(allowed) and LOCAL not in allowed


def may_run_elsewhere(spec: Mapping[str, Any], server_is_local: bool) -> bool:
    placement = _placement(spec)
    named = {*(placement.get("allowed") or ()), *(placement.get("fallbacks") or ())} - {LOCAL}
    return not server_is_local or bool(named) or placement.get("strategy") in STRATEGIES


def _placement(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec's placement section; an empty one for an invalid spec, which the server will reject."""
    from anygpu.spec import from_mapping

    try:
        return from_mapping(spec).placement.model_dump()
    except AnygpuError:
        return {}


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


FIELDS_WITH_FILES = ("script", "command")


def prepare_spec(
    client: Client,
    spec: Mapping[str, Any],
    *,
    workdir: str | Path | None = None,
    server_is_local: bool = False,
    check: bool = True,
) -> dict[str, Any]:
    """Upload the files of a job and return the spec, ready to submit.

    `server_is_local`: the server runs on this computer and can use its paths. `check`: check the trainer's
    settings and dataset before uploading.
    """
    ready = dict(spec)
    if check and ready.get("trainer"):
        check_training(ready)
    if server_is_local:
        ready = _with_local_paths(ready)
    if _runs_files(ready) or workdir is not None:
        ready = _with_archive(client, ready, None if workdir is None else Path(workdir))
    return attach_dataset(client, ready, server_is_local=server_is_local)


def _runs_files(spec: Mapping[str, Any]) -> bool:
    """Return whether the job needs a working directory.

    A trainer given by name needs none, unless `workdir` is given.
    """
    if any(spec.get(kind) for kind in FIELDS_WITH_FILES):
        return True
    return bool(spec.get("trainer") and (trainer_file(spec) or spec.get("workdir")))


def trainer_file(spec: Mapping[str, Any]) -> str | None:
    file = str(spec.get("trainer") or "").partition(":")[0]
    return file if file.endswith(".py") else None


def find_interpreter(environ: Mapping[str, str] = os.environ) -> str:
    """Return the Python of the active virtual or conda environment, else the Python that runs anygpu."""
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        python = Path(environ.get(variable, "")) / "bin" / "python"
        if environ.get(variable) and python.exists():
            return str(python)
    return sys.executable


def _with_local_paths(spec: dict[str, Any]) -> dict[str, Any]:
    # A trainer runs with the server's interpreter, where anygpu's extras are installed.
    if not any(spec.get(key) for key in ("image", "python", "trainer")):
        spec = {**spec, "python": find_interpreter()}
    data = spec.get("dataset")
    if isinstance(data, str) and "://" not in data and Path(data).exists():
        spec = {**spec, "dataset": {"path": str(Path(data).absolute())}}
    elif isinstance(data, Mapping) and data.get("path"):
        spec = {**spec, "dataset": {**data, "path": str(Path(data["path"]).absolute())}}
    return spec


def _with_archive(client: Client, spec: dict[str, Any], chosen: Path | None) -> dict[str, Any]:
    described = spec.get("workdir") or {}
    described = {"path": described} if isinstance(described, str) else dict(described)
    if described.get("archive"):
        return spec
    file = trainer_file(spec)
    root, script = resolve_script(spec.get("script") or file, chosen or _expand(described.get("path")))
    from anygpu.spec.workdir import pack

    with pack(root, described.get("ignore") or ()) as archive:
        client.upload(archive.sha256, archive.path)
        sent = {**described, "path": str(root), "archive": archive.sha256}
    return {**spec, "workdir": sent, **_script_fields(spec, script, file)}


def _script_fields(spec: Mapping[str, Any], script: str | None, trainer: str | None) -> dict[str, Any]:
    if not script:
        return {}
    kind = str(spec.get("trainer")).partition(":")[2]
    return {"trainer": f"{script}:{kind}"} if trainer else {"script": script}


def _expand(text: Any) -> Path | None:
    return Path(str(text)).expanduser() if text else None


def resolve_script(script: str | None, chosen: Path | None) -> tuple[Path, str | None]:
    """Return the directory to upload and the script's path in it.

    `chosen` is the directory that the user named. Without it, the current directory is uploaded; for a script
    outside the current directory, the directory of the script is uploaded.
    """
    root = (chosen or Path.cwd()).absolute()
    if not root.is_dir():
        raise NotFound(
            f"There is no directory {root}.", hint="It is the job's working directory. Check the path."
        )
    if script is None:
        return _require_upload_root(root, chosen is not None), None
    path = Path(script).expanduser().absolute()
    if chosen is not None and not Path(script).is_absolute() and (root / script).exists():
        path = root / script
    if not path.is_file():
        raise NotFound(
            f"There is no script {script!r}.", hint="Check the path; it is relative to the current directory."
        )
    if chosen is not None and not path.is_relative_to(root):
        raise UnsafePath(
            f"{script} is not inside the working directory {root}. Choose a directory that contains it."
        )
    if chosen is None and (_is_home_or_root(root) or not path.is_relative_to(root)):
        root = path.parent
    return _require_upload_root(root, chosen is not None), path.relative_to(root).as_posix()


def _require_upload_root(root: Path, chosen: bool) -> Path:
    """Return `root`; raise UnsafePath for the home or root directory unless it was chosen explicitly."""
    if not chosen and _is_home_or_root(root):
        raise UnsafePath(
            f"The working directory is {root}, and all its files would be uploaded.",
            hint="Change to the project's directory, choose one with --workdir, or use --no-workdir.",
        )
    return root


def _is_home_or_root(root: Path) -> bool:
    return root in (Path.home(), Path(root.anchor))
