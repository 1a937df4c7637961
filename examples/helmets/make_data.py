"""Draws data/: a building site of heads with and without helmets, in YOLO's layout."""

import random
from pathlib import Path

from PIL import Image, ImageDraw

SIZE = 64
CLASSES = ("head", "helmet")
HELMETS = ((250, 200, 20), (240, 120, 20), (230, 230, 235))


def main() -> None:
    chance = random.Random(5)
    for split, count in (("train", 80), ("val", 24)):
        for folder in ("images", "labels"):
            (Path("data") / folder / split).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            image, lines = site(chance)
            image.save(f"data/images/{split}/{number:03}.png")
            Path(f"data/labels/{split}/{number:03}.txt").write_text("\n".join(lines) + "\n")
    Path("data/data.yaml").write_text(
        f"path: .\ntrain: images/train\nval: images/val\nnames: [{', '.join(CLASSES)}]\n"
    )


def site(chance: random.Random) -> tuple[Image.Image, list[str]]:
    """Two people at most, side by side, before a wall."""
    image = Image.new("RGB", (SIZE, SIZE), (90, 110, 130 + chance.randrange(40)))
    draw = ImageDraw.Draw(image)
    for _ in range(6):
        x, y = chance.randrange(SIZE), chance.randrange(SIZE)
        draw.line((x, y, x + chance.randrange(30), y), fill=(70, 80, 90))
    people = range(chance.randint(1, 2))
    return image, [person(draw, chance, SIZE * (0.27 + 0.46 * at)) for at in people]


def person(draw: ImageDraw.ImageDraw, chance: random.Random, middle: float) -> str:
    radius = chance.uniform(8, 11)
    x, y = middle + chance.uniform(-3, 3), chance.uniform(SIZE * 0.3, SIZE * 0.6)
    kind = chance.randrange(2)
    draw.rectangle((x - radius, y + radius * 0.9, x + radius, SIZE), fill=(60, 60, 90))
    draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=(224, 172, 130))
    if kind:
        colour = chance.choice(HELMETS)
        draw.pieslice((x - radius, y - radius, x + radius, y + radius), 180, 360, fill=colour)
        draw.rectangle((x - radius, y - 2, x + radius, y + 2), fill=colour)
    return f"{kind} {x / SIZE:.5f} {y / SIZE:.5f} {2 * radius / SIZE:.5f} {2 * radius / SIZE:.5f}"


if __name__ == "__main__":
    main()
