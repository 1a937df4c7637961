"""Read YOLO label files: one line per object, coordinates as fractions of the image.

<class> <x> <y> <w> <h>                       a box: its centre and size
<class> <x1> <y1> <x2> <y2> <x3> <y3> ...     a polygon
<class> <x> <y> <w> <h> <px1> <py1> [<v1>]... a box and its keypoints, as kpt_shape defines them
"""

from __future__ import annotations

from pathlib import Path

from anygpu.trainers.data.box_checks import bounding_box, problems
from anygpu.trainers.data.dataset import Box, LayoutContents
from anygpu.trainers.data.files import lines_of
from anygpu.trainers.errors import BadDataset

BOX = 5  # numbers in the line of a box: the class and four coordinates


def read_boxes(path: Path, reading: LayoutContents, classes: int | None) -> tuple[Box, ...]:
    """Return the objects in the label file of one image. Invalid lines become problems in the result `reading`."""
    boxes: dict[Box, None] = {}
    try:
        for number, line in lines_of(path):
            box = _read_box(line, path, number, reading, classes)
            if box is not None:
                boxes[box] = None
    except BadDataset as error:
        reading.findings += error.findings
    return tuple(boxes)  # duplicate lines count once


def _read_box(line: str, path: Path, number: int, reading: LayoutContents, classes: int | None) -> Box | None:
    try:
        box = parse(line, reading.keypoint_shape)
    except ValueError as error:
        reading.wrong(path, str(error), number)
        return None
    wrong = list(problems(box, classes))
    for what in wrong:
        reading.wrong(path, what, number)
    return None if wrong else box


def parse(line: str, keypoint_shape: tuple[int, int] | None = None) -> Box:
    """Parse one line of a label file; raise ValueError if it is malformed."""
    words = line.split()
    try:
        numbers = tuple(map(float, words))
    except ValueError:
        raise ValueError(
            f"the line {_shorten(line)} is not a label; write only numbers, separated by spaces"
        ) from None
    index = _class_index(words[0], numbers[0])
    if keypoint_shape is not None:
        return _parse_keypoints(index, numbers, keypoint_shape)
    if len(numbers) == BOX:
        _, x, y, w, h = numbers
        return Box(index, x, y, w, h)
    if len(numbers) < 7 or len(numbers) % 2 == 0:
        raise ValueError(
            f"the line {_shorten(line)} has {len(numbers)} numbers; write 5 for a box (class x y w h), or a "
            "class and three or more x y pairs for a polygon"
        )
    return Box(index, *bounding_box(numbers[1:]), polygon=numbers[1:])


def _parse_keypoints(index: int, numbers: tuple[float, ...], shape: tuple[int, int]) -> Box:
    expected = BOX + shape[0] * shape[1]
    if len(numbers) != expected:
        raise ValueError(
            f"the line has {len(numbers)} numbers, but kpt_shape {list(shape)} in data.yaml requires "
            f"{expected}; correct one of them"
        )
    _, x, y, w, h = numbers[:BOX]
    return Box(index, x, y, w, h, keypoints=numbers[BOX:])


def _class_index(word: str, number: float) -> int:
    if number != number or abs(number) > 1e9 or number != int(number):
        raise ValueError(
            f"the class at the start of the line has to be a whole number, not {word}; correct it"
        )
    return int(number)


def _shorten(line: str) -> str:
    return repr(line if len(line) <= 40 else line[:39] + "…")
