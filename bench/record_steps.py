"""Record step logs of the built-in trainers by processor time: `python -m bench.record_steps [NAME ...]`.

Writes bench/recorded/NAME.json, one file for each workload, which `python -m bench accuracy` reads.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from bench.peers import ROOT

PYTHON = Path(os.environ.get("TRAINERS_PYTHON", ROOT / ".venv-trainers" / "bin" / "python"))
RECORDED = Path(__file__).with_name("recorded")
WITHIN_S = 1800
MARK = "RECORDED "
ALONE = {
    # Or the time of waiting threads would count as the training's.
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
    **dict.fromkeys(("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "YOLO_OFFLINE", "DO_NOT_TRACK"), "1"),
    **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9"),
    "YOLO_AUTOINSTALL": "false",
    "MPLBACKEND": "agg",
}
REPEATS, OFTEN = 5, 8  # steps of milliseconds are disturbed most, and cost least to make again
LONGER = (1.0, 1.0, 1.5, 2.0)  # epochs of the runs of one workload: each has a seed of its own


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A trainer, its data and its settings."""

    trainer: str
    data: str
    settings: dict[str, Any]
    repeats: int = REPEATS


def _classifier(model: str, **settings: Any) -> Workload:
    return Workload(
        trainer="torch-classifier",
        data="pictures",
        settings={"model": model, "device": "cpu", "threads": 1, **settings},
    )


def _nanogpt(model: str, **settings: Any) -> Workload:
    fixed = {"model": model, "device": "cpu", "threads": 1, "steps_per_epoch": 30, "sample_tokens": 1}
    return Workload(trainer="nanogpt", data="text", settings={**fixed, **settings})


def _tabular(model: str, *, data: str = "table", repeats: int = REPEATS, **settings: Any) -> Workload:
    settings = {"model": model, "target": "y", **settings}
    return Workload(trainer="tabular", data=data, settings=settings, repeats=repeats)


def _yolo(**settings: Any) -> Workload:
    return Workload(trainer="yolo", data="boxes", settings={"model": "yolo11n", "device": "cpu", **settings})


def _huggingface(task: str, data: str, **settings: Any) -> Workload:
    fixed = {"task": task, "device": "cpu", "log_every": 1}
    return Workload(trainer="huggingface", data=data, settings={**fixed, **settings})


WORKLOADS = {
    "classifier-small": _classifier("small-cnn", image_size=32, batch_size=16, epochs=2),
    "classifier-resnet18": _classifier("resnet18", image_size=32, batch_size=16, epochs=1),
    "nanogpt-nano": _nanogpt("gpt-nano", batch_size=8, epochs=3),
    "nanogpt-micro": _nanogpt("gpt-micro", batch_size=4, epochs=2),
    "xgboost": _tabular("xgboost", repeats=OFTEN, epochs=400, max_depth=4, n_jobs=1),
    "lightgbm": _tabular("lightgbm", repeats=OFTEN, epochs=300, n_jobs=1),
    "xgboost-long-table": _tabular("xgboost", data="long-table", epochs=150, max_depth=6, n_jobs=1),
    "lightgbm-long-table": _tabular("lightgbm", data="long-table", epochs=150, n_jobs=1),
    "random-forest": _tabular("random-forest", epochs=100, max_depth=8, max_features=0.3, n_jobs=1),
    "hist-gradient-boosting": _tabular("hist-gradient-boosting", epochs=60),
    "mlp": _tabular("mlp", epochs=6, batch_size=128, hidden_layer_sizes=[256, 128]),
    "mlp-narrow": _tabular("mlp", repeats=OFTEN, epochs=4, batch_size=64, hidden_layer_sizes=[64]),
    "yolo": _yolo(image_size=64, batch_size=4, epochs=1, fraction=0.3),
    "huggingface-text": _huggingface("text-classification", "opinions", batch_size=16, epochs=2),
    "huggingface-language": _huggingface("causal-lm", "text", block_size=64, batch_size=16, epochs=1),
}


def main() -> None:
    if not PYTHON.exists():
        raise SystemExit("the frameworks are not installed: make test-trainers installs them")
    RECORDED.mkdir(exist_ok=True)
    for name in sys.argv[1:] or WORKLOADS:
        began, runs = time.monotonic(), recorded(WORKLOADS[name])
        (RECORDED / f"{name}.json").write_text(page(WORKLOADS[name], runs))
        seconds = ", ".join(f"{run['total_s']:.1f}" for run in runs)
        print(f"{name}: {seconds} s of training, took {time.monotonic() - began:.0f} s", flush=True)


def recorded(workload: Workload) -> list[dict[str, Any]]:
    """One log for each seed; by turns, so that a busy minute of the machine does not meet all of one."""
    asked = [
        {
            "trainer": workload.trainer,
            "data": workload.data,
            "seed": seed,
            "settings": {**workload.settings, "epochs": round(workload.settings["epochs"] * longer)},
        }
        for _ in range(workload.repeats)
        for seed, longer in enumerate(LONGER)
    ]
    with tempfile.TemporaryDirectory() as place:
        homes = dict.fromkeys(("YOLO_CONFIG_DIR", "HF_HOME", "TORCH_HOME", "MPLCONFIGDIR"), place)
        path = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
        env = {**os.environ, **ALONE, **homes, "PYTHONPATH": path, "ANYGPU_RECORD": json.dumps(asked)}
        command = [str(PYTHON), "-m", "bench.recorded_training"]
        done = subprocess.run(command, cwd=place, env=env, timeout=WITHIN_S, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{workload.trainer}: {done.stderr[-2000:]}")
    lines = [line.removeprefix(MARK) for line in done.stdout.splitlines() if line.startswith(MARK)]
    runs = [json.loads(line) for line in lines]
    return [least(runs[seed :: len(LONGER)]) for seed in range(len(LONGER))]


def least(same: list[dict[str, Any]]) -> dict[str, Any]:
    """Of one training made several times: what else the machine does can only add to a step, so the least counts."""
    ends = [[0.0, *run["times_s"], run["total_s"]] for run in same]
    spans = [[later - one for one, later in pairwise(run)] for run in ends]
    times = [round(each, 4) for each in accumulate(min(step) for step in zip(*spans, strict=True))]
    return {**same[0], "times_s": times[:-1], "total_s": times[-1]}


def page(workload: Workload, runs: list[dict[str, Any]]) -> str:
    """One run a line."""
    about = {
        "trainer": workload.trainer,
        "settings": workload.settings,
        "method": f"processor seconds, one thread; each made {workload.repeats} times, of each step the least counts",
        "machine": f"{os.cpu_count()} cores, CPU",
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }
    lines = ",\n".join(json.dumps(run, separators=(",", ":")) for run in runs)
    return json.dumps(about)[:-1] + ', "runs": [\n' + lines + "\n]}\n"


if __name__ == "__main__":
    main()
