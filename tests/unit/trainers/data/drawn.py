"""Datasets drawn by the tests: small images, made of bytes."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path


def png(width: int = 8, height: int = 6, colour: tuple[int, int, int] = (200, 30, 30)) -> bytes:
    rows = (b"\x00" + bytes(colour) * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 1)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, body) for kind, body in chunks)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def jpeg(width: int = 8, height: int = 8) -> bytes:
    """One grey picture, baseline, with one table of each kind."""
    quantisation = b"\xff\xdb" + struct.pack(">HB", 67, 0) + bytes([16] * 64)
    frame = b"\xff\xc0" + struct.pack(">HBHHB", 11, 8, height, width, 1) + b"\x01\x11\x00"
    tables = b"".join(
        b"\xff\xc4" + struct.pack(">HB", 20, kind) + bytes([1, *[0] * 15]) + b"\x00" for kind in (0x00, 0x10)
    )
    scan = b"\xff\xda" + struct.pack(">HB", 8, 1) + b"\x01\x00\x00\x3f\x00"
    blocks = ((width + 7) // 8) * ((height + 7) // 8)
    body = bytes(-(-2 * blocks // 8))  # two zero bits a block: no difference, end of block
    return b"\xff\xd8" + quantisation + frame + tables + scan + body + b"\xff\xd9"


def write(path: Path, content: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def image_folder(root: Path, counts: dict[str, int], start: int = 0) -> Path:
    """`counts`: images by folder, such as {"train/cat": 3}. Every image is another."""
    for place, (folder, count) in enumerate(counts.items()):
        for number in range(start, start + count):
            write(root / folder / f"{number}.png", png(colour=(place, number % 256, number // 256)))
    return root


def yolo(root: Path, labels: dict[str, str], names: str = "[cat, dog]", more: str = "") -> Path:
    """`labels`: text by place, such as {"train/1": "0 .5 .5 .2 .2"}."""
    splits = sorted({place.split("/")[0] for place in labels})
    lines = [f"{split}: images/{split}\n" for split in splits]
    write(root / "data.yaml", f"names: {names}\n{''.join(lines)}{more}")
    for number, (place, text) in enumerate(labels.items()):
        write(root / "images" / f"{place}.png", png(colour=(number % 256, number // 256, 7)))
        write(root / "labels" / f"{place}.txt", text)
    return root
