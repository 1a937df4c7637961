import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from anygpu.errors import BlobMissing
from anygpu.sdk.downloads import RemoteFile
from anygpu.sdk.models import (
    TrainedModel,
    declared_files,
    download_model,
    find_model,
    first_match,
    framework_name,
    model_file_name,
)

NOW = datetime(2026, 1, 16, 14, 30, 45, tzinfo=UTC)


def remote(name: str, data: bytes = b"") -> RemoteFile:
    return RemoteFile(name, len(data), hashlib.sha256(data).hexdigest(), ())


def named(*names: str) -> list[RemoteFile]:
    return [remote(name) for name in names]


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["last.pt", "runs/weights/best.pt", "a.pth"], "runs/weights/best.pt"),
        (["last.pt", "best.pth"], "best.pth"),
        (["last.pt", "best_model.pt"], "best_model.pt"),
        (["e1.pth", "last.pt"], "last.pt"),
        (["e1.pt", "e1.pth"], "e1.pth"),
        (["e1.pth", "e2.pth"], "e2.pth"),
        (["curve.csv", "model.joblib"], "model.joblib"),
    ],
)
def test_patterns_are_tried_in_order_then_the_newest_wins(names: list[str], chosen: str) -> None:
    assert [file.name for file in first_match(named(*names))] == [chosen]


def test_a_declared_file_has_precedence() -> None:
    results = named("best.pt", "best/model.onnx", "best/model.pt", "last.pt")
    assert [file.name for file in declared_files(results)] == ["best/model.pt"]


def test_a_declared_directory_is_downloaded_completely() -> None:
    results = named("best/model/config.json", "best/model/model.safetensors", "other.pt")
    assert [file.name for file in declared_files(results)] == [
        "best/model/config.json",
        "best/model/model.safetensors",
    ]


class Client:
    """Answers like a client whose job has these files."""

    def __init__(self, artifacts: list[str], checkpoint: list[str]) -> None:
        self._artifacts, self._checkpoint = artifacts, checkpoint

    def artifacts(self, job_id: str) -> list[dict[str, Any]]:
        return [{"name": name, "size": 1, "sha256": "0", "urls": []} for name in self._artifacts]

    def checkpoints(self, job_id: str) -> list[dict[str, Any]]:
        files = [{"path": name, "size": 1, "sha256": "0", "urls": []} for name in self._checkpoint]
        return [{"step": 7, "saved_at": "2026", "files": files}] if files else []


def test_without_a_model_output_the_newest_checkpoint_is_used() -> None:
    found = find_model(Client(["log.txt"], ["ckpt/last.pt"]), {"id": "j"})  # type: ignore[arg-type]
    assert [file.name for file in found.files] == ["checkpoints/7/ckpt/last.pt"]


def test_a_job_without_a_model_says_how_to_declare_one() -> None:
    with pytest.raises(BlobMissing) as caught:
        find_model(Client(["log.txt"], []), {"id": "j"})  # type: ignore[arg-type]
    assert "anygpu.best" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("spec", "name", "expected"),
    [
        ({"trainer": "sklearn/random-forest"}, "best/model.pt", "sklearn"),
        ({}, "runs/detect/train/weights/best.pt", "yolo"),
        ({}, "out/best.pt", "pytorch"),
        ({}, "model.onnx", "onnx"),
        ({}, "best/model.bin", "model"),
    ],
)
def test_the_framework_comes_from_the_trainer_or_the_file(
    spec: dict[str, Any], name: str, expected: str
) -> None:
    assert framework_name(spec, named(name)) == expected


def test_the_file_name_has_framework_and_end_time() -> None:
    model = TrainedModel(named("weights/best.pt"), "yolo")
    assert (
        model_file_name(model, {"ended_at": "2026-01-16T15:30:45+01:00"})
        == "model_yolo_2026-01-16T14-30-45.pt"
    )
    assert model_file_name(model, {"ended_at": None}, NOW) == "model_yolo_2026-01-16T14-30-45.pt"


def test_another_file_of_that_name_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "model_x.pt").write_bytes(b"mine")
    (tmp_path / "model_x-2.pt").write_bytes(b"new")
    [fetched] = download_model(
        TrainedModel([remote("best.pt", b"new")], "x"), "model_x.pt", tmp_path, "http://127.0.0.1:1"
    )
    assert (fetched.path.name, fetched.downloaded) == ("model_x-2.pt", False)
    assert (tmp_path / "model_x.pt").read_bytes() == b"mine"


def test_a_model_of_several_files_keeps_their_paths(tmp_path: Path) -> None:
    (tmp_path / "model_x").mkdir()
    (tmp_path / "model_x" / "a.json").write_bytes(b"a")
    (tmp_path / "model_x" / "b.bin").write_bytes(b"b")
    files = [remote("best/model/a.json", b"a"), remote("best/model/b.bin", b"b")]
    fetched = download_model(TrainedModel(files, "x"), "model_x", tmp_path, "http://127.0.0.1:1")
    assert [each.path.relative_to(tmp_path).as_posix() for each in fetched] == [
        "model_x/a.json",
        "model_x/b.bin",
    ]
