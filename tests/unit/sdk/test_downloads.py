from pathlib import Path

import pytest

from anygpu.errors import BlobMissing, Conflict, UnsafePath
from anygpu.sdk.downloads import Downloader, RemoteFile, checkpoint_files, file_sha256, safe_path

EVIL = [
    "/etc/passwd",
    "../up",
    "a/../../up",
    "..",
    "",
    ".",
    "C:\\x",
    "C:x",
    "\\\\host\\share",
    "a\\..\\..\\b",
    "nul\0",
]


@pytest.mark.parametrize("name", EVIL)
def test_a_name_outside_the_directory_is_rejected(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnsafePath):
        safe_path(tmp_path, name)


def test_a_link_inside_the_directory_does_not_lead_out(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "runs").symlink_to(tmp_path)
    with pytest.raises(UnsafePath, match="symbolic link"):
        safe_path(root, "runs/model.pt")


def test_plain_names_keep_their_path(tmp_path: Path) -> None:
    assert safe_path(tmp_path, "runs/a..b/model.pt") == tmp_path / "runs" / "a..b" / "model.pt"


def test_different_content_is_overwritten_only_with_force(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(b"mine")
    remote = RemoteFile("model.pt", 3, "0" * 64, ())
    with pytest.raises(Conflict, match="--force"):
        Downloader(tmp_path, "http://127.0.0.1:1").fetch(remote)
    assert (tmp_path / "model.pt").read_bytes() == b"mine"


def test_the_same_content_is_not_downloaded_again(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(b"same")
    fetched = Downloader(tmp_path, "http://127.0.0.1:1").fetch(
        RemoteFile("model.pt", 4, file_sha256(path), ("/x",))
    )
    assert not fetched.downloaded


class Saved:
    """Answers like a client whose job has these checkpoints."""

    def __init__(self, *steps: int) -> None:
        self._steps = steps

    def checkpoints(self, job_id: str) -> list[dict[str, object]]:
        file = {"path": "m.pt", "size": 1, "sha256": "a" * 64, "urls": ["/u"]}
        return [
            {"step": step, "saved_at": f"2030-01-01T00:00:{step:02}Z", "files": [file]}
            for step in self._steps
        ]


def test_the_newest_checkpoint_is_fetched_under_its_step() -> None:
    (file,) = checkpoint_files(Saved(5, 10), "j")  # type: ignore[arg-type]
    assert file.name == "checkpoints/10/m.pt"


def test_a_missing_step_lists_the_available_ones() -> None:
    with pytest.raises(BlobMissing, match="5, 10"):
        checkpoint_files(Saved(5, 10), "j", step=7)  # type: ignore[arg-type]
