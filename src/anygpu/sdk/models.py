"""Find and download a job's trained model.

The model is the file that the script declared with `anygpu.best(path)`; else the first match of `PATTERNS` among the
output files, then among the files of the newest checkpoint. Of several matches, the newest is used.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

from anygpu.errors import BlobMissing
from anygpu.sdk.client import Client
from anygpu.sdk.downloads import (
    DownloadedFile,
    Downloader,
    RemoteFile,
    artifact_files,
    checkpoint_files,
    file_sha256,
)

DECLARED_PREFIX = "best/"
WEIGHTS = ("pt", "pth", "safetensors", "ckpt")
PATTERNS = (
    *(f"best.{kind}" for kind in WEIGHTS),
    *(f"best*.{kind}" for kind in WEIGHTS),
    *(f"last.{kind}" for kind in WEIGHTS),
    *(f"model.{kind}" for kind in WEIGHTS),
    "*.pth",
    "*.pt",
    "*.safetensors",
    "*.ckpt",
    "*.keras",
    "*.h5",
    "*.joblib",
    "*.pkl",
    "*.ubj",
    "*.onnx",
)
FRAMEWORKS = {
    ".pt": "pytorch",
    ".pth": "pytorch",
    ".safetensors": "pytorch",
    ".ckpt": "lightning",
    ".keras": "keras",
    ".h5": "keras",
    ".joblib": "sklearn",
    ".pkl": "sklearn",
    ".ubj": "xgboost",
    ".onnx": "onnx",
}


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """The files of a model: one file, or several in one directory."""

    files: Sequence[RemoteFile]
    framework: str

    @property
    def root(self) -> str:
        """The common directory of the files, or the name of a single file."""
        return self.files[0].name if len(self.files) == 1 else DECLARED_PREFIX + "model"


def find_model(client: Client, job: Mapping[str, Any]) -> TrainedModel:
    """Return the trained model of a job. Raise BlobMissing if the job has none."""
    results = artifact_files(client, job["id"])
    files = (
        declared_files(results) or first_match(results) or first_match(_newest_checkpoint(client, job["id"]))
    )
    if not files:
        raise BlobMissing(
            "The job has no model file.",
            hint="Declare it in the script with anygpu.best(path), or add its file to `outputs`.",
        )
    return TrainedModel(files, framework_name(job.get("spec") or {}, files))


def declared_files(results: Sequence[RemoteFile]) -> list[RemoteFile]:
    """Return the newest file that the script declared, or all files of a declared directory."""
    best = [file for file in results if file.name.startswith(DECLARED_PREFIX)]
    if not best:
        return []
    inside = f"{DECLARED_PREFIX}model/"
    return (
        [file for file in best if file.name.startswith(inside)]
        if best[-1].name.startswith(inside)
        else best[-1:]
    )


def first_match(files: Sequence[RemoteFile]) -> list[RemoteFile]:
    for pattern in PATTERNS:
        matches = [file for file in files if fnmatchcase(PurePosixPath(file.name).name, pattern)]
        if matches:
            return matches[-1:]
    return []


def framework_name(spec: Mapping[str, Any], files: Sequence[RemoteFile]) -> str:
    """Return the trainer's name, else a framework name derived from the file's path and suffix."""
    if spec.get("trainer"):
        return str(spec["trainer"]).partition("/")[0]
    name = PurePosixPath(files[0].name)
    if name.parent.name == "weights" and name.suffix == ".pt":
        return "yolo"  # ultralytics saves weights/best.pt and weights/last.pt
    suffixes = {PurePosixPath(file.name).suffix for file in files}
    return next((framework for suffix, framework in FRAMEWORKS.items() if suffix in suffixes), "model")


def model_file_name(model: TrainedModel, job: Mapping[str, Any], now: datetime | None = None) -> str:
    """Return a file name such as `model_yolo_2026-01-16T14-30-45.pt`.

    The time is the end of the job in UTC.
    """
    ended = job.get("ended_at")
    at = datetime.fromisoformat(ended) if ended else now or datetime.now(UTC)
    suffix = "".join(PurePosixPath(model.root).suffixes[-1:]) if len(model.files) == 1 else ""
    return f"model_{model.framework}_{at.astimezone(UTC):%Y-%m-%dT%H-%M-%S}{suffix}"


def download_model(model: TrainedModel, name: str, directory: Path, base_url: str) -> list[DownloadedFile]:
    """Download the model as `name`; if another file has that name, a number is added to the name."""
    free = _free_name(directory, name, model)
    download = Downloader(directory, base_url)
    return [download.fetch(replace(file, name=free + file.name[len(model.root) :])) for file in model.files]


def _free_name(directory: Path, name: str, model: TrainedModel) -> str:
    stem, dot, suffix = name.partition(".") if len(model.files) == 1 else (name, "", "")
    number, chosen = 1, name
    while (directory / chosen).exists() and not _is_model_at(directory / chosen, model):
        number += 1
        chosen = f"{stem}-{number}{dot}{suffix}"
    return chosen


def _is_model_at(path: Path, model: TrainedModel) -> bool:
    if len(model.files) > 1:
        return all(_matches(path / file.name[len(model.root) + 1 :], file) for file in model.files)
    return _matches(path, model.files[0])


def _matches(path: Path, file: RemoteFile) -> bool:
    return path.is_file() and file_sha256(path) == file.sha256


def _newest_checkpoint(client: Client, job_id: str) -> list[RemoteFile]:
    try:
        return checkpoint_files(client, job_id)
    except BlobMissing:
        return []
