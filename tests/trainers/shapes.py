"""Draws a small detection set: coloured shapes on noise, so that a small model learns it within a minute on a CPU."""

import math
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

CLASSES = ("square", "disc")
COLOURS = {"square": (220, 60, 40), "disc": (40, 90, 220)}
SIZE = 64


def yolo_dataset(
    root: Path, *, train: int = 64, val: int = 24, size: int = SIZE, labels: str = "boxes"
) -> Path:
    """A folder in YOLO layout; `labels`: "boxes", "outlines" (polygons) or "keypoints" (middle and right edge)."""
    chance = np.random.default_rng(7)
    for split, count in (("train", train), ("val", val)):
        for folder in ("images", "labels"):
            (root / folder / split).mkdir(parents=True)
        for number in range(count):
            image, lines = drawn(chance, size, labels)
            image.save(root / "images" / split / f"{number:03}.png")
            (root / "labels" / split / f"{number:03}.txt").write_text("\n".join(lines) + "\n")
    about = f"path: .\ntrain: images/train\nval: images/val\nnames: [{', '.join(CLASSES)}]\n"
    (root / "data.yaml").write_text(about + ("kpt_shape: [2, 2]\n" if labels == "keypoints" else ""))
    return root


def image_folder(root: Path, *, train: int = 24, val: int = 8, size: int = SIZE) -> Path:
    """One shape an image, in a folder named after it."""
    chance = np.random.default_rng(7)
    for split, count in (("train", train), ("val", val)):
        for number in range(count):
            index = number % len(CLASSES)
            folder = root / split / CLASSES[index]
            folder.mkdir(parents=True, exist_ok=True)
            image = noise(chance, size)
            draw_shape(image, index, size / 2, size / 2, size / 4)
            image.save(folder / f"{number:03}.png")
    return root


def noise(chance: np.random.Generator, size: int) -> Image.Image:
    return Image.fromarray(chance.integers(90, 165, (size, size, 3), dtype=np.uint8))


def drawn(chance: np.random.Generator, size: int, labels: str) -> tuple[Image.Image, list[str]]:
    """One shape in the left half, sometimes another in the right one."""
    image, lines = noise(chance, size), []
    for half in range(int(chance.integers(1, 3))):
        index = int(chance.integers(0, len(CLASSES)))
        radius = float(chance.uniform(0.14, 0.22)) * size
        x = float(chance.uniform(radius, size / 2 - radius)) + half * size / 2
        y = float(chance.uniform(radius, size - radius))
        draw_shape(image, index, x, y, radius)
        numbers = outline(index, x, y, radius) if labels == "outlines" else [x, y, 2 * radius, 2 * radius]
        numbers += [x, y, x + radius, y] if labels == "keypoints" else []
        lines.append(f"{index} " + " ".join(f"{value / size:.6f}" for value in numbers))
    return image, lines


def draw_shape(image: Image.Image, index: int, x: float, y: float, radius: float) -> None:
    draw = ImageDraw.Draw(image)
    corners = (x - radius, y - radius, x + radius, y + radius)
    paint = draw.rectangle if CLASSES[index] == "square" else draw.ellipse
    paint(corners, fill=COLOURS[CLASSES[index]])


def outline(index: int, x: float, y: float, radius: float) -> list[float]:
    if CLASSES[index] == "square":
        return [
            x - radius,
            y - radius,
            x + radius,
            y - radius,
            x + radius,
            y + radius,
            x - radius,
            y + radius,
        ]
    turns = [2 * math.pi * step / 16 for step in range(16)]
    return [value for turn in turns for value in (x + radius * math.cos(turn), y + radius * math.sin(turn))]
