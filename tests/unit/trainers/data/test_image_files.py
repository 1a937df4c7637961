"""Whole images, and every way of not being one."""

import struct
from pathlib import Path

import pytest
from tests.unit.trainers.data.drawn import image_folder, jpeg, png, write

from anygpu.trainers import data
from anygpu.trainers.data.image_files import BadImage, inspect_images, read_size

PROGRESSIVE = (
    jpeg(16, 16)[:-2]
    + b"\xff\xc4\x00\x03\x00"
    + b"\xff\xda\x00\x02"
    + b"\x00\xff\x00\xff\xd1\x01"
    + b"\xff\xd9"
)
GIF = b"GIF89a" + struct.pack("<HH", 5, 7)
BMP = b"BM" + bytes(12) + struct.pack("<Iii", 40, 5, -7)
OLD_BMP = b"BM" + bytes(12) + struct.pack("<IHH", 12, 5, 7)
TIFF = (
    b"II*\x00"
    + struct.pack("<IH", 8, 2)
    + struct.pack("<HHIHH", 256, 3, 1, 5, 0)
    + struct.pack("<HHII", 257, 4, 1, 7)
)


def webp(kind: bytes, body: bytes) -> bytes:
    return b"RIFF" + struct.pack("<I", 12 + len(body)) + b"WEBP" + kind + struct.pack("<I", len(body)) + body


@pytest.mark.parametrize(
    ("content", "size"),
    [
        (png(5, 7), (5, 7)),
        (jpeg(5, 7), (5, 7)),
        (PROGRESSIVE, (16, 16)),
        (jpeg(5, 7) + b"appended by a camera", (5, 7)),
        (GIF, (5, 7)),
        (BMP, (5, 7)),
        (OLD_BMP, (5, 7)),
        (TIFF, (5, 7)),
        (webp(b"VP8 ", bytes(6) + struct.pack("<HH", 5, 7)), (5, 7)),
        (webp(b"VP8L", b"\x2f" + struct.pack("<I", 4 | 6 << 14)), (5, 7)),
        (webp(b"VP8X", bytes(4) + b"\x04\x00\x00\x06\x00\x00"), (5, 7)),
    ],
)
def test_the_size_is_read_from_the_file_itself(content: bytes, size: tuple[int, int]) -> None:
    assert read_size(content) == size


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "the image is empty"),
        (b"hello", "not in a supported image format"),
        (jpeg()[:-2], "truncated JPEG: the end of the picture is missing"),
        (jpeg()[:100], "truncated JPEG: it ends before"),
        (jpeg()[:3], "truncated: the image ends within its header"),
        (jpeg().replace(b"\xff\xc0", b"\x00\xc0"), "corrupt JPEG: no segment begins at byte 71"),
        (jpeg()[:-2] + b"\xff\x77\xff\xd9", "corrupt JPEG: damaged at byte"),
        (b"\xff\xd8\xff\xd9", "corrupt JPEG: it ends before its picture begins"),
        (b"\xff\xd8\xff\xda\x00\x02\x00\xff\xd9", "corrupt JPEG: its width and height are missing"),
        (jpeg(0, 8), "corrupt: the header states a size of 0 by 8 pixels"),
        (png()[:-5], "truncated PNG"),
        (png()[:20], "truncated PNG"),
        (png().replace(b"IDAT", b"IDAX"), "corrupt PNG: wrong checksum at byte 33"),
        (png()[:33] + png()[-12:], "corrupt PNG: it has no header or no picture"),
        (GIF[:7], "truncated: the image ends within its header"),
        (webp(b"VP8X", bytes(10))[:-1], "truncated WebP"),
        (b"RIFF" + bytes(8) + b"WAVE", "not an image"),
    ],
)
def test_what_is_not_a_whole_image_says_why(content: bytes, what: str) -> None:
    with pytest.raises(BadImage, match=what):
        read_size(content)


@pytest.mark.parametrize("whole", [jpeg(24, 24), png(24, 24)], ids=["jpeg", "png"])
def test_no_beginning_of_an_image_passes_for_a_whole_one(whole: bytes) -> None:
    for length in range(len(whole)):
        with pytest.raises(BadImage):
            read_size(whole[:length])


def test_every_changed_byte_of_a_png_is_noticed() -> None:
    whole = png(4, 4)
    for place in range(len(whole)):
        with pytest.raises(BadImage):
            read_size(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])


def test_every_bad_image_of_a_dataset_is_told_at_once(tmp_path: Path) -> None:
    image_folder(tmp_path, {"cat": 4, "dog": 4})
    write(tmp_path / "cat" / "cut.jpg", jpeg()[:-2])
    write(tmp_path / "cat" / "empty.png", b"")
    (tmp_path / "dog" / "dangling.png").symlink_to(tmp_path / "gone.png")
    write(tmp_path / "dog" / "text.png", "not a picture")
    with pytest.raises(data.BadDataset) as caught:
        data.load(tmp_path)
    assert [(each.path.name, each.what[:24]) for each in caught.value.findings] == [
        ("cut.jpg", "truncated JPEG: the end "),
        ("empty.png", "the image is empty (0 by"),
        ("dangling.png", "the image does not exist"),
        ("text.png", "not in a supported image"),
    ]


def test_what_cannot_be_read_says_what_the_system_said(tmp_path: Path) -> None:
    found = inspect_images([tmp_path])[tmp_path]
    assert isinstance(found, BadImage)
    assert str(found) == "the image cannot be read: Is a directory; check the permissions of the file"
