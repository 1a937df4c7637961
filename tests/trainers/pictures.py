"""Small images made by the test: circles, squares and crosses in any colour, anywhere."""

import random
from pathlib import Path

from PIL import Image, ImageDraw

CLASSES = ("circle", "cross", "square")


def draw_folder(root: Path, *, each: int, size: int = 32, seed: int = 0) -> Path:
    """An image folder without a split of its own: `each` images of every class."""
    chance = random.Random(seed)
    for name in CLASSES:
        (root / name).mkdir(parents=True, exist_ok=True)
        for index in range(each):
            picture(name, size, chance).save(root / name / f"{index:03}.png")
    return root


def picture(name: str, size: int, chance: random.Random) -> Image.Image:
    image = Image.new("RGB", (size, size), _colour(chance, 0, 80))
    draw, colour = ImageDraw.Draw(image), _colour(chance, 140, 255)
    reach = chance.uniform(0.25, 0.4) * size
    x, y = (chance.uniform(reach, size - reach) for _ in "xy")
    box = (x - reach, y - reach, x + reach, y + reach)
    if name == "circle":
        draw.ellipse(box, fill=colour)
    elif name == "square":
        draw.rectangle(box, fill=colour)
    else:
        draw.line((box[0], y, box[2], y), fill=colour, width=4)
        draw.line((x, box[1], x, box[3]), fill=colour, width=4)
    return image


def _colour(chance: random.Random, low: int, high: int) -> tuple[int, int, int]:
    red, green, blue = (chance.randint(low, high) for _ in range(3))
    return red, green, blue
