"""The command line of the trainers. The agent runs it inside a job; people can run it by hand.

Example: `python -m anygpu.trainers yolo '{"epochs": 3}'`
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anygpu.trainers import Context, PrintingContext, TrainerError, find, get_trainer
from anygpu.trainers.context import current_context
from anygpu.trainers.launch import ProcessGroup, end_with_parent
from anygpu.trainers.ranks import rank_from_environment, size_from_environment

USAGE_ERROR = 2


def main(argv: Sequence[str] | None = None) -> int:
    end_with_parent()
    args = _parser().parse_args(argv)
    try:
        settings = _config(args.config)
        if args.processes > 1 and size_from_environment() == 1:
            return _launch(args, settings)
        trainer = get_trainer(
            args.trainer,
            dataset_path=args.dataset or None,
            output_dir=args.output,
            context=_context(args),
            **settings,
        )
        result = trainer.train()
    except TrainerError as error:
        sys.stderr.write(f"{error}\n")
        return USAGE_ERROR
    if rank_from_environment() > 0:
        return 0
    summary = "  ".join(f"{name} {value:.4g}" for name, value in result.metrics.items())
    end = "stopped and saved" if result.stopped else "done"
    epochs = "1 epoch" if result.epochs == 1 else f"{result.epochs} epochs"
    sys.stderr.write(f"{end} after {epochs}  {summary}\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m anygpu.trainers", description="Train a model.")
    parser.add_argument("trainer", help="name of a trainer (yolo, tabular, ...), or ./file.py:Class")
    parser.add_argument("config", nargs="?", default="{}", help="settings of the training, as a JSON object")
    parser.add_argument("--dataset", default=os.environ.get("ANYGPU_DATASET", ""))
    parser.add_argument("--output", default=os.environ.get("ANYGPU_OUTPUT_DIR", "outputs"))
    parser.add_argument("--resume", action="store_true", help="continue from the last checkpoint in --output")
    parser.add_argument(
        "--processes",
        type=int,
        default=1,
        help="number of processes on this machine, one for each GPU; they share each batch",
    )
    parser.add_argument(
        "--json", action="store_true", help="print progress on standard output, one JSON object per line"
    )
    return parser


def _launch(args: argparse.Namespace, settings: dict[str, Any]) -> int:
    """Check the settings once, then run one process for each GPU."""
    kind = find(args.trainer)
    kind.check_processes(kind.parse_settings(settings), args.processes)
    arguments = [args.trainer, args.config, "--dataset", args.dataset, "--output", args.output]
    flags = [f"--{name}" for name in ("resume", "json") if getattr(args, name)]
    return ProcessGroup([*arguments, *flags], args.processes).run()


def _context(args: argparse.Namespace) -> Context:
    output = Path(args.output)
    return (
        PrintingContext(output, resume=args.resume)
        if args.json
        else current_context(output, resume=args.resume)
    )


def _config(text: str) -> dict[str, Any]:
    try:
        config = json.loads(text)
    except ValueError as error:
        raise TrainerError(
            f"the settings are not valid JSON: {error}; write them as '{{\"epochs\": 3}}'"
        ) from None
    if not isinstance(config, dict):
        raise TrainerError(
            f"the settings are not a JSON object: {text[:50]}; write them as '{{\"epochs\": 3}}'"
        )
    return config


if __name__ == "__main__":
    sys.exit(main())
