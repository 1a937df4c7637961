"""Find code that wastes money or can lose work, with advice for each finding."""

import ast
import re
from collections.abc import Iterator
from typing import Any

from anygpu.plan.analyse.code.training_code import Code
from anygpu.plan.analyse.fields import data as inputs
from anygpu.plan.analyse.findings import Analysis, CodeFinding, Lint, Severity

_EVALUATES = re.compile(
    r"^(evaluate|eval_|validate|validation|valid|test|run_eval|run_validation|estimate_loss)\w*$"
)
_DATA = re.compile(
    r"(?i)data|train|img|image|corpus|csv|parquet|mnt|home|users|scratch|content|kaggle|gfs|nfs|datasets?"
)
_ABSOLUTE = re.compile(r"^(/|~|\.\./|[A-Za-z]:[\\/])")
SMALL_MODEL = 2_000_000
SMALL_DATA_GB = 0.1
_SYNCED = ("/outputs",)
_GPU_FRAMEWORKS = frozenset(
    {"pytorch", "lightning", "transformers", "keras", "tensorflow", "jax", "accelerate"}
)


def find_lints(code: Code, analysis: Analysis) -> tuple[Lint, ...]:
    """Return all lints of the code, most expensive first."""
    finding = [
        *_no_resume(analysis),
        *_never_saves(analysis),
        *_checkpoint_outside(analysis),
        *_absolute_path(code, analysis),
        *_fixed_world_size(analysis),
        *_no_amp(analysis),
        *_no_workers(analysis),
        *_frequent_evaluation(code),
    ]
    return tuple(finding)


def _lint(code: str, message: str, do: str, at: CodeFinding[Any], severity: Severity = "costs") -> Lint:
    return Lint(code=code, message=message, advice=do, file=at.file, line=at.line, severity=severity)


def _trains(analysis: Analysis) -> bool:
    return bool(analysis.frameworks) and (analysis.needs_gpu is None or analysis.needs_gpu.value)


def _no_resume(analysis: Analysis) -> Iterator[Lint]:
    if analysis.resuming is not None and not analysis.resuming.value and _trains(analysis):
        yield _lint(
            "no-resume",
            "An interrupted run starts from zero: nothing loads a saved state.",
            "Load the newest checkpoint at start (anygpu.resume_path() names it), or give resume_args;"
            " spot machines, at a third of the price, are used only then.",
            analysis.resuming,
        )


def _never_saves(analysis: Analysis) -> Iterator[Lint]:
    if analysis.checkpointing is not None and not analysis.checkpointing.value and _trains(analysis):
        yield _lint(
            "no-checkpoint",
            "Nothing is saved while it trains: a lost machine loses the whole run.",
            "Save model, optimiser and step every few minutes of work.",
            analysis.checkpointing,
            "risks",
        )


def _checkpoint_outside(analysis: Analysis) -> Iterator[Lint]:
    for path in analysis.checkpoint_paths:
        if _ABSOLUTE.match(path.value) and not path.value.startswith(_SYNCED):
            yield _lint(
                "checkpoint-outside",
                f"Checkpoints go to {path.value}, outside the directory that is kept.",
                "Write them below the working directory (checkpoint.paths in the spec), or they die with the machine.",
                path,
                "risks",
            )
            return


def _absolute_path(code: Code, analysis: Analysis) -> Iterator[Lint]:
    saved = {path.value for path in analysis.checkpoint_paths}
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


def _fixed_world_size(analysis: Analysis) -> Iterator[Lint]:
    if analysis.gpus is not None and analysis.gpus.value > 1 and analysis.gpus.file != "command line":
        yield _lint(
            "fixed-world-size",
            f"Is fixed to {analysis.gpus.value} GPUs: no smaller or cheaper machine can take it.",
            "Take the number from the environment (torchrun's WORLD_SIZE, devices='auto').",
            analysis.gpus,
        )


def _is_small(analysis: Analysis) -> bool:
    """Return whether the model is too small to benefit from mixed precision.

    If the model's size is unknown, the size of its data decides.
    """
    if analysis.parameters is not None:
        return analysis.parameters.value < SMALL_MODEL
    return analysis.dataset_gb is not None and analysis.dataset_gb.value < SMALL_DATA_GB


def _no_amp(analysis: Analysis) -> Iterator[Lint]:
    names = {f.value for f in analysis.frameworks}
    small = _is_small(analysis)
    full = analysis.precision is not None and analysis.precision.value == "fp32"
    if (
        analysis.precision is not None
        and full
        and not small
        and _trains(analysis)
        and names & _GPU_FRAMEWORKS
    ):
        yield _lint(
            "no-amp",
            "Trains in 32 bits: tensor cores stay idle and activations take twice the memory.",
            "Use mixed precision (autocast with bfloat16, bf16=True, precision='bf16-mixed').",
            analysis.precision,
        )


def _no_workers(analysis: Analysis) -> Iterator[Lint]:
    if analysis.workers is not None and analysis.workers.value == 0 and _trains(analysis):
        yield _lint(
            "no-workers",
            "The data loader has 0 workers: the GPU waits while each batch is read.",
            "Set num_workers to 4 or to the number of CPUs per GPU.",
            analysis.workers,
        )


def _frequent_evaluation(code: Code) -> Iterator[Lint]:
    for call in code.hf_arguments:
        setting = code.argument_value(call, "eval_steps")
        if setting is not None and isinstance(setting.value, int) and setting.value <= 5:
            yield _eval_lint(call.file, setting.line, f"Evaluates every {setting.value} steps.")
            return
    for call in code.facts.calls:
        inner = call.context.loops[-1] if call.context.loops else None
        always = not call.context.guards and _EVALUATES.match(call.short_name) is not None
        if always and inner is not None and code.facts.loop_depth(call) >= 2 and _steps_optimiser(inner):
            yield _eval_lint(call.file, call.line, "Evaluates after every single step.")
            return


def _steps_optimiser(loop: ast.AST) -> bool:
    """Return whether this loop itself, not a nested loop, steps the optimiser."""
    body = getattr(loop, "body", [])
    direct = [
        node
        for statement in body
        if not isinstance(statement, ast.For | ast.While)
        for node in ast.walk(statement)
    ]
    return any(isinstance(node, ast.Attribute) and node.attr == "backward" for node in direct)


def _eval_lint(file: str, line: int, message: str) -> Lint:
    return Lint(
        code="eval-every-step",
        message=f"{message} Most of the bill is then evaluation.",
        advice="Evaluate once an epoch, or every few hundred steps.",
        file=file,
        line=line,
    )
