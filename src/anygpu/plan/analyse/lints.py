"""What in the code will cost money or lose work, each with what to do about it."""

import ast
import re
from collections.abc import Iterator
from typing import Any

from anygpu.plan.analyse import inputs
from anygpu.plan.analyse.code import Code
from anygpu.plan.analyse.findings import Analysis, Found, Lint, Severity

_EVALUATES = re.compile(
    r"^(evaluate|eval_|validate|validation|valid|test|run_eval|run_validation|estimate_loss)\w*$"
)
_DATA = re.compile(
    r"(?i)data|train|img|image|corpus|csv|parquet|mnt|home|users|scratch|content|kaggle|gfs|nfs|datasets?"
)
_OUTSIDE = re.compile(r"^(/|~|\.\./|[A-Za-z]:[\\/])")
SMALL_MODEL = 2_000_000
SMALL_DATA_GB = 0.1
_SYNCED = ("/outputs",)
_GPU_FRAMEWORKS = frozenset(
    {"pytorch", "lightning", "transformers", "keras", "tensorflow", "jax", "accelerate"}
)


def lints(code: Code, read: Analysis) -> tuple[Lint, ...]:
    """In the order in which they cost."""
    found = [
        *_no_resume(read),
        *_never_saves(read),
        *_outside(read),
        *_absolute(code, read),
        *_world(read),
        *_no_amp(read),
        *_no_workers(read),
        *_evaluates_always(code),
    ]
    return tuple(found)


def _lint(code: str, says: str, do: str, at: Found[Any], severity: Severity = "costs") -> Lint:
    return Lint(code=code, says=says, do=do, file=at.file, line=at.line, severity=severity)


def _trains(read: Analysis) -> bool:
    return bool(read.frameworks) and (read.needs_gpu is None or read.needs_gpu.value)


def _no_resume(read: Analysis) -> Iterator[Lint]:
    if read.resuming is not None and not read.resuming.value and _trains(read):
        yield _lint(
            "no-resume",
            "An interrupted run starts from zero: nothing loads a saved state.",
            "Load the newest checkpoint at start (anygpu.resume_path() names it), or give resume_args;"
            " spot machines, at a third of the price, are used only then.",
            read.resuming,
        )


def _never_saves(read: Analysis) -> Iterator[Lint]:
    if read.checkpointing is not None and not read.checkpointing.value and _trains(read):
        yield _lint(
            "no-checkpoint",
            "Nothing is saved while it trains: a lost machine loses the whole run.",
            "Save model, optimiser and step every few minutes of work.",
            read.checkpointing,
            "risks",
        )


def _outside(read: Analysis) -> Iterator[Lint]:
    for path in read.checkpoint_paths:
        if _OUTSIDE.match(path.value) and not path.value.startswith(_SYNCED):
            yield _lint(
                "checkpoint-outside",
                f"Checkpoints go to {path.value}, outside the directory that is kept.",
                "Write them below the working directory (checkpoint.paths in the spec), or they die with the machine.",
                path,
                "risks",
            )
            return


def _absolute(code: Code, read: Analysis) -> Iterator[Lint]:
    saved = {path.value for path in read.checkpoint_paths}
    for path in inputs.absolute_paths(code):
        if (
            not any(to.startswith(path.value) for to in saved)
            and _DATA.search(path.value)
            and "{" not in path.value
        ):
            yield _lint(
                "absolute-path",
                f"Reads {path.value}, which is on this machine only.",
                "Take the path as an argument and name the data in `dataset`; it is then brought to the machine.",
                path,
                "risks",
            )
            return


def _world(read: Analysis) -> Iterator[Lint]:
    if read.gpus is not None and read.gpus.value > 1 and read.gpus.file != "command line":
        yield _lint(
            "fixed-world-size",
            f"Is fixed to {read.gpus.value} GPUs: no smaller or cheaper machine can take it.",
            "Take the number from the environment (torchrun's WORLD_SIZE, devices='auto').",
            read.gpus,
        )


def _is_small(read: Analysis) -> bool:
    """Too small to gain: by its weights, or where they are not known by its data."""
    if read.parameters is not None:
        return read.parameters.value < SMALL_MODEL
    return read.dataset_gb is not None and read.dataset_gb.value < SMALL_DATA_GB


def _no_amp(read: Analysis) -> Iterator[Lint]:
    names = {f.value for f in read.frameworks}
    small = _is_small(read)
    full = read.precision is not None and read.precision.value == "fp32"
    if read.precision is not None and full and not small and _trains(read) and names & _GPU_FRAMEWORKS:
        yield _lint(
            "no-amp",
            "Trains in 32 bits: tensor cores stay idle and activations take twice the memory.",
            "Use mixed precision (autocast with bfloat16, bf16=True, precision='bf16-mixed').",
            read.precision,
        )


def _no_workers(read: Analysis) -> Iterator[Lint]:
    if read.workers is not None and read.workers.value == 0 and _trains(read):
        yield _lint(
            "no-workers",
            "The data loader has 0 workers: the GPU waits while each batch is read.",
            "Set num_workers to 4 or to the number of CPUs per GPU.",
            read.workers,
        )


def _evaluates_always(code: Code) -> Iterator[Lint]:
    for call in code.hf:
        told = code.value(call, "eval_steps")
        if told is not None and isinstance(told.value, int) and told.value <= 5:
            yield _eval_lint(call.file, told.line, f"Evaluates every {told.value} steps.")
            return
    for call in code.facts.calls:
        inner = call.around.loops[-1] if call.around.loops else None
        always = not call.around.guards and _EVALUATES.match(call.last) is not None
        if always and inner is not None and code.facts.depth(call) >= 2 and _steps_here(inner):
            yield _eval_lint(call.file, call.line, "Evaluates after every single step.")
            return


def _steps_here(loop: ast.AST) -> bool:
    """Whether the loop that evaluates is the one that steps the optimiser."""
    body = getattr(loop, "body", [])
    direct = [
        node
        for statement in body
        if not isinstance(statement, ast.For | ast.While)
        for node in ast.walk(statement)
    ]
    return any(isinstance(node, ast.Attribute) and node.attr == "backward" for node in direct)


def _eval_lint(file: str, line: int, says: str) -> Lint:
    return Lint(
        code="eval-every-step",
        says=f"{says} Most of the bill is then evaluation.",
        do="Evaluate once an epoch, or every few hundred steps.",
        file=file,
        line=line,
    )
