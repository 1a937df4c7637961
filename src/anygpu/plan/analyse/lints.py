"""Find code that wastes money or can lose work (lints), with advice for each."""

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
    """Return the places in the code that waste money or can lose work, most expensive first."""
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
            "An interrupted run starts from zero, because the code does not load a checkpoint.",
            "Load the newest checkpoint at the start (from anygpu.resume_path()), or set resume_args."
            " Only then can the job use spot machines, which cost about a third.",
            analysis.resuming,
        )


def _never_saves(analysis: Analysis) -> Iterator[Lint]:
    if analysis.checkpointing is not None and not analysis.checkpointing.value and _trains(analysis):
        yield _lint(
            "no-checkpoint",
            "The code saves nothing during training, so a lost machine loses the whole run.",
            "Save model, optimiser and step every few minutes.",
            analysis.checkpointing,
            "risks",
        )


def _checkpoint_outside(analysis: Analysis) -> Iterator[Lint]:
    for path in analysis.checkpoint_paths:
        if _ABSOLUTE.match(path.value) and not path.value.startswith(_SYNCED):
            yield _lint(
                "checkpoint-outside",
                f"Checkpoints are written to {path.value}, which is lost when the machine ends.",
                "Write them below the working directory, and set checkpoint.paths in the spec.",
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
                f"Reads {path.value}, which may not exist on other machines.",
                "Take the path from an argument, and set `dataset`: the data is then copied to the machine.",
                path,
                "risks",
            )
            return


def _fixed_world_size(analysis: Analysis) -> Iterator[Lint]:
    if analysis.gpus is not None and analysis.gpus.value > 1 and analysis.gpus.file != "command line":
        yield _lint(
            "fixed-world-size",
            f"The code requires {analysis.gpus.value} GPUs, so it cannot run on a smaller, cheaper machine.",
            "Take the number of GPUs from the environment (torchrun's WORLD_SIZE, devices='auto').",
            analysis.gpus,
        )


def _is_small(analysis: Analysis) -> bool:
    """Return whether the model is too small to benefit from mixed precision.

    If the size of the model is unknown, a model with little training data counts as small.
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
            "Trains in 32 bits, so tensor cores are not used and activations take twice the memory.",
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
    """Return whether a loop trains the model itself, and not only in a loop that is nested inside it."""
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
        message=f"{message} So most of the cost is for evaluation.",
        advice="Evaluate once per epoch, or every few hundred steps.",
        file=file,
        line=line,
    )
