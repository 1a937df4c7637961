"""Draws flowers.csv: sizes of three kinds of flowers, around a typical one of each."""

import csv
import random
from pathlib import Path

TYPICAL = {"bluebell": (2.1, 0.6), "daisy": (1.2, 2.4), "poppy": (4.0, 3.1)}


def main() -> None:
    chance = random.Random(4)
    with Path("flowers.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["length", "width", "kind"])
        for number in range(240):
            kind = list(TYPICAL)[number % 3]
            writer.writerow([*(round(chance.gauss(size, 0.45), 2) for size in TYPICAL[kind]), kind])


if __name__ == "__main__":
    main()
