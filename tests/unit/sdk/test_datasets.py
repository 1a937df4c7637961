"""Data that is a path here goes along with a job that may run elsewhere, piece by piece."""

import gzip
import hashlib
import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from anygpu.errors import TooLarge, UnsafePath
from anygpu.sdk.datasets import send, with_dataset
from anygpu.spec.workdir import pack_whole


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


def test_everything_is_sent_under_its_own_name_ignored_or_not(data: Path) -> None:
    store = Store()
    found = unpacked(store, send(store, data, part_bytes=100))  # type: ignore[arg-type]
    assert set(found) == {"digits/.gitignore", "digits/b.txt", "digits/train/a.bin"}
    assert found["digits/train/a.bin"] == bytes(range(256)) * 10


def test_what_the_server_has_is_not_sent_again(data: Path) -> None:
    store = Store()
    first = send(store, data, part_bytes=100)  # type: ignore[arg-type]
    sent = store.sent
    assert send(store, data, part_bytes=100) == first  # type: ignore[arg-type]
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
def test_it_goes_along_when_the_job_may_leave_this_machine(
    data: Path, placement: dict[str, Any], here: bool, goes: bool
) -> None:
    spec = {"code": "print(1)", "dataset": str(data), "placement": placement}
    ready = with_dataset(Store(), spec, here=here)  # type: ignore[arg-type]
    assert (ready != spec) == goes
    if goes:
        assert ready["dataset"]["path"] == str(data)
        assert len(ready["dataset"]["parts"]) == 1


@pytest.mark.parametrize(
    "dataset", [None, "s3://bucket/x", "flowers@2", "/no/such/path", {"url": "https://x/y"}]
)
def test_what_is_no_path_here_is_left_alone(dataset: Any) -> None:
    spec = {"code": "print(1)", "dataset": dataset, "placement": {"allowed": ["aws"]}}
    assert with_dataset(Store(), spec, here=True) == spec  # type: ignore[arg-type]


def test_data_too_large_to_send_says_what_to_do(data: Path) -> None:
    with pytest.raises(TooLarge, match=r"at most 1\.0 KiB are sent along") as caught:
        pack_whole(data, max_bytes=1024)
    assert "URL" in (caught.value.hint or "")


def test_a_link_to_a_directory_is_not_followed(data: Path) -> None:
    (data / "more").symlink_to(data / "train")
    with pytest.raises(UnsafePath, match="link to a directory"):
        pack_whole(data)
