"""With Pillow installed every image is decoded, and Parquet is read where pyarrow is."""

import io
import random
from pathlib import Path

import pyarrow
import pytest
from PIL import Image
from pyarrow import parquet

from anygpu.trainers import data
from anygpu.trainers.data.image_files import BadImage, inspect_images, read_size


def photo(number: int, format: str, **settings: object) -> bytes:
    chance = random.Random(number)
    image = Image.frombytes("RGB", (64, 48), bytes(chance.randrange(256) for _ in range(64 * 48 * 3)))
    buffer = io.BytesIO()
    image.save(buffer, format, **settings)
    return buffer.getvalue()


FORMATS = [
    ("JPEG", {}),
    ("JPEG", {"progressive": True}),
    ("JPEG", {"quality": 1}),
    ("JPEG", {"quality": 100, "subsampling": 0}),
    ("JPEG", {"restart_marker_blocks": 2}),
    ("JPEG", {"optimize": True, "progressive": True, "restart_marker_rows": 1}),
    ("PNG", {}),
    ("BMP", {}),
    ("GIF", {}),
    ("WEBP", {}),
    ("WEBP", {"lossless": True}),
    ("TIFF", {}),
]


@pytest.mark.parametrize(("format", "settings"), FORMATS)
def test_what_pillow_writes_is_a_whole_image(
    tmp_path: Path, format: str, settings: dict[str, object]
) -> None:
    content = photo(1, format, **settings)
    path = tmp_path / "image"
    path.write_bytes(content)
    found = inspect_images([path])[path]
    assert not isinstance(found, BadImage), found
    assert (found.width, found.height) == (64, 48) == read_size(content)


@pytest.mark.parametrize(("format", "settings"), FORMATS[:7])
def test_a_cut_image_is_noticed_without_decoding(format: str, settings: dict[str, object]) -> None:
    content = photo(2, format, **settings)
    for length in range(0, len(content) - 1, max(1, len(content) // 50)):
        with pytest.raises(BadImage):
            read_size(content[:length])


def test_damage_that_leaves_the_structure_whole_is_found_by_decoding(tmp_path: Path) -> None:
    content = photo(3, "TIFF", compression="tiff_lzw")
    path = tmp_path / "image.tif"
    path.write_bytes(content[: len(content) // 2] + bytes(len(content) - len(content) // 2))
    assert isinstance(inspect_images([path])[path], BadImage)


def test_a_dataset_with_one_undecodable_image_is_refused(tmp_path: Path) -> None:
    for number in range(8):
        path = tmp_path / ("cat" if number % 2 else "dog") / f"{number}.gif"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(photo(number, "GIF"))
    assert len(list(data.load(tmp_path).items)) == 8
    cut = tmp_path / "cat" / "1.gif"
    cut.write_bytes(cut.read_bytes()[:900])
    with pytest.raises(data.BadDataset, match=r"1\.gif: corrupt: it cannot be decoded"):
        data.load(tmp_path)
    assert len(list(data.load(tmp_path, decode=False).items)) == 8


def test_parquet_is_read_as_csv_is(tmp_path: Path) -> None:
    columns = {
        "size": [1, None, 3],
        "colour": ["red", None, "blue"],
        "new": [True, False, None],
        "w": [0.5, float("nan"), 1],
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    found = data.load_table(tmp_path / "t.parquet", target="colour")
    assert found.kinds == ("number", "category", "category", "number")
    assert found.rows == ((1.0, "red", "true", 0.5), (None, None, "false", None), (3.0, "blue", None, 1.0))
