"""Results that come home never replace what the user wrote or changed."""

import os
from pathlib import Path
from typing import Any

import pytest

from anygpu.sdk.downloads import RemoteFile, file_sha256
from anygpu.sdk.home import HomeDirectory, ran_in_copy

JOB = "0198f3c2-0000-7abc-8def-0123456789ab"
LONG_AGO_NS = 10**18
EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def write_old(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))


def fetch_empty(root: Path, name: str, *, since_ns: int) -> tuple[Path, Path | None]:
    """Download an empty result; it has no parts, so no server is asked."""
    file = HomeDirectory(root, JOB, since_ns).fetch(
        RemoteFile(name, 0, EMPTY_SHA256, ()), "http://127.0.0.1:1", lambda count: None
    )
    assert file_sha256(file.path) == EMPTY_SHA256
    return file.path, file.kept


def test_a_new_file_gets_its_own_name(tmp_path: Path) -> None:
    assert fetch_empty(tmp_path, "runs/model.pt", since_ns=0) == (tmp_path / "runs" / "model.pt", None)


def test_a_file_that_changed_after_the_submission_is_kept(tmp_path: Path) -> None:
    mine = tmp_path / "notes.txt"
    mine.write_bytes(b"mine")
    assert fetch_empty(tmp_path, "notes.txt", since_ns=0) == (tmp_path / "notes.txt.anygpu-456789ab", mine)
    assert mine.read_bytes() == b"mine"


def test_a_file_that_is_older_than_the_submission_is_replaced(tmp_path: Path) -> None:
    write_old(tmp_path / "model.pt", b"of an earlier run")
    far_future_ns = 2**62
    assert fetch_empty(tmp_path, "model.pt", since_ns=far_future_ns) == (tmp_path / "model.pt", None)


@pytest.mark.parametrize("name", ["train.py", "study.ipynb", "run.sh", "program"])
def test_code_is_kept_however_old_it_is(tmp_path: Path, name: str) -> None:
    write_old(tmp_path / name, b"code")
    if name == "program":
        (tmp_path / name).chmod(0o755)
    path, kept = fetch_empty(tmp_path, name, since_ns=2**62)
    assert (path.name, kept) == (f"{name}.anygpu-456789ab", tmp_path / name)
    assert (tmp_path / name).read_bytes() == b"code"


def test_a_link_is_kept_and_its_target_is_not_written(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_bytes(b"mine")
    (tmp_path / "model.pt").symlink_to(target)
    path, kept = fetch_empty(tmp_path, "model.pt", since_ns=2**62)
    assert (path.name, kept) == ("model.pt.anygpu-456789ab", tmp_path / "model.pt")
    assert target.read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("workdir", "backend", "copied"),
    [
        (None, "lambda", False),
        ({"path": "/home/ada/digits"}, "local", False),
        ({"archive": "0" * 64}, "local", True),
        ({"manifest": "0" * 64}, "local", False),
        ({"manifest": "0" * 64}, "lambda", True),
        ({"manifest": "0" * 64, "snapshot": True}, "local", True),
    ],
)
def test_a_job_ran_in_a_copy_if_it_did_not_run_in_the_directory_itself(
    workdir: dict[str, Any] | None, backend: str, copied: bool
) -> None:
    assert ran_in_copy({"spec": {"workdir": workdir}, "attempts": [{"backend": backend}]}) is copied
    assert not ran_in_copy({"spec": {"workdir": workdir}, "attempts": []})
