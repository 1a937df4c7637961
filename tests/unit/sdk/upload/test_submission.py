import gzip
import hashlib
import io
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from anygpu.errors import NotFound, TooLarge, UnsafePath
from anygpu.sdk.upload.submission import attach_dataset, find_interpreter, upload_dataset
from anygpu.sdk.upload.workdir import resolve_script
from anygpu.spec.workdir import pack_data


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "project" / "src").mkdir(parents=True)
    (tmp_path / "project" / "src" / "train.py").write_text("print(1)")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def test_a_script_in_this_directory_is_uploaded_with_it(project: Path) -> None:
    assert resolve_script("src/train.py", None) == (project, "src/train.py")


def test_a_script_elsewhere_uploads_its_own_directory(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert resolve_script(str(project / "src" / "train.py"), None) == (project / "src", "train.py")


def test_a_script_is_found_relative_to_workdir(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert resolve_script("src/train.py", project) == (project, "src/train.py")


def test_a_missing_script_is_reported_before_uploading(project: Path) -> None:
    with pytest.raises(NotFound, match="no script"):
        resolve_script("nothing.py", None)


def test_a_missing_directory_is_reported(project: Path) -> None:
    with pytest.raises(NotFound, match="The working directory"):
        resolve_script("train.py", project / "nowhere")


def test_a_script_outside_workdir_is_rejected(project: Path) -> None:
    (project.parent / "other").mkdir()
    with pytest.raises(UnsafePath):
        resolve_script(str(project / "src" / "train.py"), project.parent / "other")


def test_the_home_directory_is_not_uploaded_by_default(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(project))
    with pytest.raises(UnsafePath, match="--workdir"):
        resolve_script(None, None)
    assert resolve_script(None, project) == (project, None)


def test_the_python_of_the_active_environment_is_used(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    assert find_interpreter({"VIRTUAL_ENV": str(tmp_path)}) == str(tmp_path / "bin" / "python")


def test_a_deleted_environment_is_ignored(tmp_path: Path) -> None:
    assert Path(find_interpreter({"VIRTUAL_ENV": str(tmp_path / "gone")})).exists()


@pytest.mark.parametrize("marker", ["uv-receipt.toml", "pipx_metadata.json"])
def test_a_tool_uses_the_python_on_the_path(tmp_path: Path, marker: str) -> None:
    (tmp_path / marker).touch()
    (tmp_path / "python3").touch(mode=0o755)
    found = find_interpreter({"PATH": str(tmp_path)}, prefix=str(tmp_path))
    assert found == str(tmp_path / "python3")
    (tmp_path / marker).unlink()
    assert find_interpreter({"PATH": str(tmp_path)}, prefix=str(tmp_path)) == sys.executable


class Store:
    """Keeps what is uploaded, as the server does."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.sent = 0

    def upload(self, sha256: str, archive: bytes) -> bool:
        assert hashlib.sha256(archive).hexdigest() == sha256
        self.sent += sha256 not in self.kept
        self.kept[sha256] = archive
        return True


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "digits"
    (folder / "train").mkdir(parents=True)
    (folder / "train" / "a.bin").write_bytes(bytes(range(256)) * 10)
    (folder / ".gitignore").write_text("*")
    (folder / "b.txt").write_text("b")
    return folder


def unpacked(store: Store, parts: list[str]) -> dict[str, bytes]:
    whole = gzip.decompress(b"".join(store.kept[part] for part in parts))
    with tarfile.open(fileobj=io.BytesIO(whole)) as tar:
        files = {name: tar.extractfile(name) for name in tar.getnames()}
        return {name: file.read() for name, file in files.items() if file is not None}


def test_all_dataset_files_are_uploaded_even_ignored_ones(data: Path) -> None:
    store = Store()
    found = unpacked(store, upload_dataset(store, data, part_bytes=100))  # type: ignore[arg-type]
    assert set(found) == {"digits/.gitignore", "digits/b.txt", "digits/train/a.bin"}
    assert found["digits/train/a.bin"] == bytes(range(256)) * 10


def test_parts_on_the_server_are_not_uploaded_again(data: Path) -> None:
    store = Store()
    first = upload_dataset(store, data, part_bytes=100)  # type: ignore[arg-type]
    sent = store.sent
    assert upload_dataset(store, data, part_bytes=100) == first  # type: ignore[arg-type]
    assert (store.sent, len(first) > 1) == (sent, True)


@pytest.mark.parametrize(
    ("placement", "here", "goes"),
    [
        ({}, True, False),
        ({"allowed": ["local"]}, True, False),
        ({"allowed": ["aws"]}, True, True),
        ({"allowed": ["local", "aws"]}, True, True),
        ({"strategy": "cheapest"}, True, True),
        ({"strategy": "queue"}, True, False),
        ({}, False, True),
    ],
)
def test_the_dataset_is_uploaded_if_the_job_may_run_elsewhere(
    data: Path, placement: dict[str, Any], here: bool, goes: bool
) -> None:
    spec = {"code": "print(1)", "dataset": str(data), "placement": placement}
    ready = attach_dataset(Store(), spec, server_is_local=here)  # type: ignore[arg-type]
    assert (ready != spec) == goes
    if goes:
        assert ready["dataset"]["path"] == str(data)
        assert len(ready["dataset"]["parts"]) == 1


@pytest.mark.parametrize(
    "dataset", [None, "s3://bucket/x", "flowers@2", "/no/such/path", {"url": "https://x/y"}]
)
def test_a_dataset_that_is_no_local_path_is_not_changed(dataset: Any) -> None:
    spec = {"code": "print(1)", "dataset": dataset, "placement": {"allowed": ["aws"]}}
    assert attach_dataset(Store(), spec, server_is_local=True) == spec  # type: ignore[arg-type]


def test_a_dataset_that_is_too_large_is_explained(data: Path) -> None:
    with pytest.raises(TooLarge, match=r"at most 1\.0 KiB can be uploaded") as caught:
        pack_data(data, max_bytes=1024)
    assert "URL" in (caught.value.hint or "")


def test_a_link_to_a_directory_is_not_followed(data: Path) -> None:
    (data / "more").symlink_to(data / "train")
    with pytest.raises(UnsafePath, match="link to a directory"):
        pack_data(data)


PREPARE = """
import sys
from anygpu.sdk.upload.submission import prepare_spec

class Server:
    backends = property(lambda self: self)
    def list(self):
        return {"backends": [{"name": "local", "kind": "local"}]}

spec = prepare_spec(Server(), {"script": "src/train.py"}, server_is_local=True)
print("pydantic" in sys.modules, spec["workdir"])
"""


def test_preparing_a_plain_job_in_place_does_not_import_pydantic(project: Path) -> None:
    command = [sys.executable, "-c", PREPARE]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == f"False {{'path': '{project}'}}\n"
