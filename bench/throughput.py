"""How well plan/throughput.py meets published rates: `python -m bench.throughput ../shared/data/throughput`.

The directory holds the tables of huggingface/pytorch-image-models (results/, Apache-2.0); it is no part of the product.
"""

import csv
import statistics
import sys
from collections.abc import Iterator
from math import exp, log
from pathlib import Path

from anygpu.plan.gpus import GpuSpec, spec
from anygpu.plan.throughput import Pace, Work, pace

TRAINING = "benchmark-train-amp-nchw-pt112-cu113-rtx3090.csv"
SIZES = "benchmark-infer-amp-nchw-pt240-cu124-rtx3090.csv"


def main() -> None:
    directory = Path(sys.argv[1])
    gpu = spec("RTX 3090")
    assert gpu is not None
    found = [*errors(directory, gpu)]
    sizes = sorted(abs(error) for error, _ in found)
    held = sum(holds for _, holds in found) / len(found)
    print(f"{len(found)} models on one RTX 3090, seconds a training step, predicted against published")
    print(f"median error {exp(statistics.median(sizes)) - 1:.0%}")
    for allowed in (0.25, 0.5, 1.0):
        share = sum(size <= log(1 + allowed) for size in sizes) / len(sizes)
        print(f"within {allowed:.0%}: {share:.0%}")
    print(f"interval of nine in ten holds: {held:.0%}")


def errors(directory: Path, gpu: GpuSpec) -> Iterator[tuple[float, bool]]:
    """The logarithm of predicted over published, and whether the interval held."""
    for work, step_s in published(directory):
        said: Pace = pace(work, gpu)
        yield log(said.step_s / step_s), said.low_s <= step_s <= said.high_s


def published(directory: Path) -> Iterator[tuple[Work, float]]:
    sizes = {row["model"].partition(".")[0]: row for row in rows(directory / SIZES)}
    for row in rows(directory / TRAINING):
        size = sizes.get(row["model"].partition(".")[0])
        if size is None:
            continue
        larger = (float(row["train_img_size"]) / float(size["infer_img_size"])) ** 2
        batch = int(row["train_batch_size"])
        yield (
            Work(
                batch=batch,
                gmacs=float(size["infer_gmacs"]) * larger,
                mega_activations=float(size["infer_macts"]) * larger,
                mega_parameters=float(row["param_count"]),
            ),
            batch / float(row["train_samples_per_sec"]),
        )


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return [row for row in csv.DictReader(file) if row.get("infer_gmacs", "1")]


if __name__ == "__main__":
    main()
