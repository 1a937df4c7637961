"""Small tables, made anew by every test from a seed."""

import csv
import random
from pathlib import Path
from typing import Any

HEAD = ("bill length", "mass", "island", "sex", "price", "species")
SPECIES = ("adelie", "chinstrap", "gentoo")


def penguins(path: Path, rows: int = 120, seed: int = 1) -> Path:
    """Three species that differ by bill and mass, with gaps; the price depends on both."""
    chance = random.Random(seed)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEAD)
        writer.writerows(_penguin(chance) for _ in range(rows))
    return path


def _penguin(chance: random.Random) -> list[Any]:
    kind = chance.randrange(3)
    mass = round(3000 + 900 * kind + chance.gauss(0, 150))
    bill = 38 + 5 * kind + chance.gauss(0, 1)
    island = "abc"[kind] if chance.random() < 0.8 else chance.choice("abc")
    price = 100 * mass + 5000 * bill + (20_000 if island == "a" else 0)
    shown = "" if chance.random() < 0.05 else f"{bill:.2f}"
    return [shown, mass, island, chance.choice(["m", "f", ""]), f"{price:.1f}", SPECIES[kind]]
