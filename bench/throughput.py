"""How well plan/predict/step_time.py meets published rates: `python -m bench.throughput ../shared/data/throughput`.

The directory holds the tables of huggingface/pytorch-image-models (results/, Apache-2.0); it is no part of the product.
Twice: as the table counts a model's work, and as the planner reads it from a script that names the model.
"""

import csv
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, log
from pathlib import Path

from anygpu.plan.analyse.script import analyse
from anygpu.plan.hardware.gpus import GpuSpec, spec
from anygpu.plan.hardware.models import find_model
from anygpu.plan.predict.step_time import StepWork, step_duration

TRAINING = "benchmark-train-amp-nchw-pt112-cu113-rtx3090.csv"
SIZES = "benchmark-infer-amp-nchw-pt240-cu124-rtx3090.csv"
SCRIPT = """
import timm, torch, torchvision
model = timm.create_model("{name}").cuda()
data = Pictures(transform=torchvision.transforms.Resize({side}))
scaler = torch.cuda.amp.GradScaler()
loader = torch.utils.data.DataLoader(data, batch_size={batch})
for step in range(1000):
    with torch.autocast("cuda", dtype=torch.float16):
        scaler.scale(model(next(loader)).sum()).backward()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One row of the table."""

    name: str
    batch: int
    side: int
    work: StepWork
    step_s: float


def main() -> None:
    gpu = spec("RTX 3090")
    assert gpu is not None
    rows = [*published(Path(sys.argv[1]))]
    told("as the table counts them", [error(row.work, row, gpu) for row in rows])
    read = [
        (work, row) for row in rows if find_model(row.name) is not None and (work := as_read(row)) is not None
    ]
    told("as a script that names them is read", [error(work, row, gpu) for work, row in read])


def told(how: str, found: list[tuple[float, bool]]) -> None:
    sizes = sorted(abs(size) for size, _ in found)
    held = sum(holds for _, holds in found) / len(found)
    print(f"{len(found)} models on one RTX 3090, {how}: seconds a training step, predicted against published")
    print(f"median error {exp(statistics.median(sizes)) - 1:.0%}")
    for allowed in (0.25, 0.5, 1.0):
        share = sum(size <= log(1 + allowed) for size in sizes) / len(sizes)
        print(f"within {allowed:.0%}: {share:.0%}")
    print(f"interval of nine in ten holds: {held:.0%}")


def error(work: StepWork, row: Published, gpu: GpuSpec) -> tuple[float, bool]:
    """The logarithm of predicted over published, and whether the interval held."""
    said = step_duration(work, gpu)
    return log(said.step_s / row.step_s), said.low_s <= row.step_s <= said.high_s


def as_read(row: Published) -> StepWork | None:
    needs = analyse(SCRIPT.format(name=row.name, side=row.side, batch=row.batch)).characteristics
    return needs.effort.work if needs is not None and needs.effort is not None else None


def published(directory: Path) -> Iterator[Published]:
    sizes = {row["model"].partition(".")[0]: row for row in rows(directory / SIZES)}
    for row in rows(directory / TRAINING):
        size = sizes.get(row["model"].partition(".")[0])
        if size is None:
            continue
        side, batch = int(row["train_img_size"]), int(row["train_batch_size"])
        larger = (side / float(size["infer_img_size"])) ** 2
        work = StepWork(
            batch=batch,
            gmacs=float(size["infer_gmacs"]) * larger,
            mega_activations=float(size["infer_macts"]) * larger,
            mega_parameters=float(row["param_count"]),
        )
        step_s = batch / float(row["train_samples_per_sec"])
        yield Published(name=row["model"], batch=batch, side=side, work=work, step_s=step_s)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return [row for row in csv.DictReader(file) if row.get("infer_gmacs", "1")]


if __name__ == "__main__":
    main()
