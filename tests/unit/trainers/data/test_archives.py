"""Archives: unpacked once, whole or not at all, and never to a place outside."""

import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
from tests.unit.trainers.data.drawn import image_folder, png, write, yolo

from anygpu.trainers import data
from anygpu.trainers.data.archives import ArchiveLimits, open_dataset

Members = list[tuple[str, bytes]]


def zipped(path: Path, members: Members) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def tarred(path: Path, members: Members, *more: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz" if path.suffix in (".gz", ".tgz") else "w") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for info in more:
            archive.addfile(info)
    return path


def linked(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def pictures(prefix: str = "") -> Members:
    return [
        (f"{prefix}{name}/{n}.png", png(colour=(n, len(name), 0)))
        for name in ("cat", "horse")
        for n in range(5)
    ]


def refused(path: Path, cache: Path, limits: ArchiveLimits | None = None) -> str:
    with pytest.raises(data.BadDataset) as caught:
        open_dataset(path, cache, limits)
    assert not cache.exists() or not list(cache.iterdir()), "something was left behind"
    return str(caught.value)


@pytest.mark.parametrize("name", ["d.zip", "d.tar", "d.tar.gz", "d.tgz"])
@pytest.mark.parametrize("prefix", ["", "pets/", "./exports/pets/"])
def test_an_archive_is_a_dataset_with_or_without_a_folder_around_it(
    tmp_path: Path, name: str, prefix: str
) -> None:
    members = [*pictures(prefix), ("__MACOSX/._x", b"x"), (f"{prefix}cat/.DS_Store", b"x")]
    path = (zipped if name.endswith("zip") else tarred)(tmp_path / name, members)
    found = data.load(path, cache_dir=tmp_path / "cache")
    assert found.classes == ("cat", "horse")
    assert len(list(found.items)) == 10


def test_the_same_content_is_unpacked_once_whatever_its_name(tmp_path: Path) -> None:
    first = zipped(tmp_path / "a.zip", pictures())
    second = write(tmp_path / "b.zip", first.read_bytes())
    folder = open_dataset(first, tmp_path / "cache")
    (folder / "mark").touch()
    assert (open_dataset(second, tmp_path / "cache") / "mark").exists()


def test_a_folder_is_opened_as_it_is(tmp_path: Path) -> None:
    assert open_dataset(tmp_path, tmp_path / "cache") == tmp_path
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    "name", ["../out.png", "/tmp/out.png", "a/../../out.png", "C:\\out.png", "a\\..\\out.png", "C:/x"]
)
@pytest.mark.parametrize("kind", ["d.zip", "d.tar.gz"])
def test_a_name_that_leads_out_is_refused_and_nothing_is_left(tmp_path: Path, name: str, kind: str) -> None:
    path = (zipped if kind.endswith("zip") else tarred)(tmp_path / kind, [*pictures(), (name, b"x")])
    assert "points outside the archive" in refused(path, tmp_path / "cache")


@pytest.mark.parametrize(
    ("member", "what"),
    [
        (linked("cat/l.png", "/etc/passwd"), "points outside the archive"),
        (linked("cat/l.png", "../../secret"), "points outside the archive"),
        (linked("cat/l.png", "missing.png"), "is not a file in the archive"),
        (linked("cat/l.png", "/etc/passwd", tarfile.LNKTYPE), "is not a file in the archive"),
        (linked("cat/l.png", "."), "is not a file in the archive"),
        (linked("cat/l.png", "l.png"), "damaged or cannot be unpacked"),
        (linked("cat/null", "", tarfile.CHRTYPE), "is a device or a pipe"),
        (linked("cat/pipe", "", tarfile.FIFOTYPE), "is a device or a pipe"),
    ],
)
def test_links_out_and_devices_are_refused(tmp_path: Path, member: tarfile.TarInfo, what: str) -> None:
    assert what in refused(tarred(tmp_path / "d.tar", pictures(), member), tmp_path / "cache")


def test_a_link_within_the_archive_becomes_the_file_itself(tmp_path: Path) -> None:
    path = tarred(tmp_path / "d.tar", pictures(), linked("horse/linked.png", "../cat/0.png"))
    made = open_dataset(path, tmp_path / "cache") / "horse" / "linked.png"
    assert not made.is_symlink()
    assert made.read_bytes() == png(colour=(0, 3, 0))


def test_nothing_is_written_through_a_link_of_the_archive(tmp_path: Path) -> None:
    trap = tarred(
        tmp_path / "d.tar", pictures(), linked("horse2", "cat"), linked("horse2/x.png", "../cat/0.png")
    )
    assert "is not a file in the archive" in refused(trap, tmp_path / "cache")


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "d.zip", "w") as archive:
        info = zipfile.ZipInfo("cat/l.png")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    assert "is a link or a device" in refused(tmp_path / "d.zip", tmp_path / "cache")


def test_a_name_that_comes_twice_is_refused(tmp_path: Path) -> None:
    path = tarred(tmp_path / "d.tar", [("cat/a.png", b"1"), ("cat/a.png", b"2")])
    assert "in the archive twice" in refused(path, tmp_path / "cache")


@pytest.mark.parametrize(
    ("limits", "what"),
    [(ArchiveLimits(files=9), "too many files"), (ArchiveLimits(bytes=100), "is too large")],
)
@pytest.mark.parametrize("name", ["d.zip", "d.tar.gz"])
def test_an_archive_without_end_is_not_unpacked(
    tmp_path: Path, limits: ArchiveLimits, what: str, name: str
) -> None:
    path = (zipped if name.endswith("zip") else tarred)(tmp_path / name, pictures())
    assert what in refused(path, tmp_path / "cache", limits)


@pytest.mark.parametrize("name", ["d.zip", "d.tar.gz"])
@pytest.mark.parametrize("kept", [0.0, 0.5, 0.95])
def test_a_damaged_archive_leaves_nothing_behind(tmp_path: Path, name: str, kept: float) -> None:
    path = (zipped if name.endswith("zip") else tarred)(tmp_path / name, pictures())
    path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])
    assert "the archive is damaged" in refused(path, tmp_path / "cache")


def test_a_changed_byte_in_a_zip_is_noticed(tmp_path: Path) -> None:
    path = zipped(tmp_path / "d.zip", pictures())
    content = bytearray(path.read_bytes())
    content[60] ^= 0xFF
    path.write_bytes(content)
    assert "the archive is damaged" in refused(path, tmp_path / "cache")


def test_findings_are_named_by_their_place_in_the_archive(tmp_path: Path) -> None:
    root = yolo(tmp_path / "data", {"train/a": "9 .5 .5 .1 .1", "val/b": ""})
    members = [
        (str(file.relative_to(tmp_path)), file.read_bytes()) for file in root.rglob("*") if file.is_file()
    ]
    path = zipped(tmp_path / "d.zip", members)
    with pytest.raises(data.BadDataset) as caught:
        data.load(path, cache_dir=tmp_path / "cache")
    assert caught.value.findings[0].path == path / "labels/train/a.txt"


def test_a_folder_of_splits_alone_stays_where_it_is(tmp_path: Path) -> None:
    image_folder(tmp_path / "data", {"train/cat": 4, "train/dog": 4})
    members = [
        (f"train/{file.parent.name}/{file.name}", file.read_bytes()) for file in tmp_path.rglob("*.png")
    ]
    found = data.load(zipped(tmp_path / "d.zip", members), cache_dir=tmp_path / "cache")
    assert found.splits["train"][0].id.startswith("train/")
