"""Where the commands of each page are typed: a copy of an example, or data drawn for it."""

import shutil
from collections.abc import Callable
from pathlib import Path

from tests.docs.pages import ROOT
from tests.unit.trainers.data import drawn

HELMETS, FIVE = "[head, helmet]", "[head, helmet, vest, glove, boot]"
INSIDE = "0 0.5 0.5 0.2 0.2"


def example(name: str) -> Callable[[Path], Path]:
    return lambda place: shutil.copytree(ROOT / "examples" / name, place / name)


def datasets(place: Path) -> Path:
    labels = {f"train/{number}": f"{number % 2} 0.5 0.5 0.2 0.2\n" for number in range(8)}
    drawn.yolo(place / "helmets", labels, HELMETS)
    shutil.make_archive(str(place / "helmets"), "zip", place / "helmets")
    drawn.write(place / "prices.csv", "size,colour,price\n1,red,10\n2.5,blue,12\n")
    wrong = {"train/0042": f"{INSIDE}\n{INSIDE}\n7 0.5 0.5 0.2 0.2\n", "train/0107": "0 0.9 0.5 0.5 0.1\n"}
    drawn.yolo(place / "spoiled", {**wrong, "val/0001": f"{INSIDE}\n"}, FIVE)
    drawn.write(place / "spoiled/images/val/0003.jpg", drawn.jpeg()[:-2])
    drawn.write(place / "spoiled/labels/val/0003.txt", f"{INSIDE}\n")
    return place


PLACES: dict[str, Callable[[Path], Path]] = {
    "README.md": example("plain"),
    "docs/tutorial/first-jobs.md": example("plain"),
    "docs/reference/cli.md": example("plain"),
    "docs/explanation/analysis.md": example("plain"),
    "docs/reference/catalog.md": example("plain"),
    "docs/explanation/planning.md": example("plain"),
    "docs/explanation/spot.md": example("plain"),
    "docs/how-to/trainers.md": example("tabular"),
    "docs/how-to/your-own-trainer.md": example("plugin"),
    "docs/how-to/datasets.md": datasets,
}
