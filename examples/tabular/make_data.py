"""Draws customers.csv: who leaves depends on the contract, the price and how long somebody has been there."""

import csv
import math
import random
from pathlib import Path


def main() -> None:
    chance = random.Random(11)
    with Path("customers.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["months", "price", "contract", "support_calls", "leaves"])
        for _ in range(1_200):
            months, price = chance.randint(1, 72), round(chance.uniform(10, 90), 2)
            contract, calls = chance.choice(["monthly", "yearly"]), chance.randint(0, 6)
            leaning = (
                0.05 * price + 0.6 * calls - 0.06 * months + (1.2 if contract == "monthly" else -1.2) - 2
            )
            leaves = chance.random() < 1 / (1 + math.exp(-2 * leaning))
            writer.writerow([months, price, contract, calls, "yes" if leaves else "no"])


if __name__ == "__main__":
    main()
