"""A training that counts what our hooks cost it; sent to a job as code, and run where the frameworks are installed.

BENCH_TRAINER and BENCH_SETTINGS say what to train. The last line it prints is a JSON object of seconds.
"""

import functools
import importlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from anygpu.trainers import AnyTrainer, get_trainer
from anygpu.trainers.progress import Progress

SIDE, PICTURES = 64, 960
# Everything of ours that runs between two steps goes through these.
HOOKS: dict[str, list[tuple[Any, str]]] = {
    "torch-classifier": [(AnyTrainer, "step_done"), (AnyTrainer, "epoch_done"), (Progress, "saw")],
    "yolo": [("anygpu.trainers.yolo.engine", "run_callbacks")],
}
STALLS = [(AnyTrainer, "checkpoint"), (AnyTrainer, "_keep_best")]
spent = {"hooks": 0.0, "stalls": 0.0, "stalls_cpu": 0.0}
inside: list[str] = []


def main() -> None:
    trainer, settings = os.environ["BENCH_TRAINER"], json.loads(os.environ["BENCH_SETTINGS"])
    # Outside the working directory: files that a script creates there are uploaded as results of the job.
    dataset = draw(Path(tempfile.mkdtemp(prefix="anygpu-bench-")), boxes=trainer == "yolo")
    made = get_trainer(trainer, dataset_path=dataset, output_dir=os.environ["ANYGPU_OUTPUT_DIR"], **settings)
    for owner, name in HOOKS[trainer]:
        for each in owners(owner, name):
            count(each, name, "hooks")
    for owner, name in STALLS:
        count(owner, name, "stalls")
    began, cpu = time.monotonic(), time.process_time()
    result = made.train()
    said = {
        "wall_s": time.monotonic() - began,
        "cpu_s": time.process_time() - cpu,
        "hooks_s": spent["hooks"] - spent["stalls_cpu"],
        "stalls_s": spent["stalls"],
        "stalls_cpu_s": spent["stalls_cpu"],
        "steps": result.timing.steps,
    }
    shutil.rmtree(dataset)
    sys.stdout.write("MEASURED " + json.dumps(said) + "\n")


def owners(owner: Any, name: str) -> list[Any]:
    """A class; or every class of a module that defines the method itself."""
    if not isinstance(owner, str):
        return [owner]
    module = importlib.import_module(owner)
    return [
        each
        for each in vars(module).values()
        if isinstance(each, type) and name in vars(each) and each.__module__ == owner
    ]


def count(owner: Any, name: str, kind: str) -> None:
    """Processor time of hooks, and clock time of the saves among them: the last save of all holds no step up."""
    inner = getattr(owner, name)

    @functools.wraps(inner)
    def counted(*args: Any, **more: Any) -> Any:
        if kind in inside or (kind == "stalls" and not inside):
            return inner(*args, **more)
        inside.append(kind)
        cpu, clock = time.thread_time(), time.monotonic()
        try:
            return inner(*args, **more)
        finally:
            inside.remove(kind)
            note(kind, time.thread_time() - cpu, time.monotonic() - clock)

    setattr(owner, name, counted)


def note(kind: str, cpu_s: float, clock_s: float) -> None:
    if kind == "hooks":
        spent["hooks"] += cpu_s
    else:
        spent["stalls"] += clock_s
        spent["stalls_cpu"] += cpu_s


def draw(root: Path, *, boxes: bool) -> Path:
    """Circles and squares: an image folder, or a YOLO dataset."""
    chance = random.Random(0)
    for index in range(PICTURES):
        split, kind = "val" if index % 5 == 0 else "train", index % 2
        image, box = picture(kind, chance)
        if boxes:
            save(image, root / "images" / split / f"{index:04}.png")
            label = root / "labels" / split / f"{index:04}.txt"
            label.parent.mkdir(parents=True, exist_ok=True)
            label.write_text(f"{kind} " + " ".join(f"{value:.5f}" for value in box) + "\n")
        else:
            save(image, root / split / ("circle", "square")[kind] / f"{index:04}.png")
    if boxes:
        (root / "data.yaml").write_text("train: images/train\nval: images/val\nnames: [circle, square]\n")
    return root


def picture(kind: int, chance: random.Random) -> tuple[Image.Image, tuple[float, ...]]:
    image = Image.new("RGB", (SIDE, SIDE), (20, 20, 20))
    reach = chance.uniform(8, 20)
    x, y = (chance.uniform(reach, SIDE - reach) for _ in "xy")
    corners = (x - reach, y - reach, x + reach, y + reach)
    shape = ImageDraw.Draw(image).ellipse if kind == 0 else ImageDraw.Draw(image).rectangle
    shape(corners, fill=tuple(chance.randint(120, 255) for _ in range(3)))
    return image, tuple(value / SIDE for value in (x, y, 2 * reach, 2 * reach))


def save(image: Image.Image, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path)


if __name__ == "__main__":
    main()
