"""Analyse a job that uses a trainer, from its settings and from the hints of built-in trainers."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from anygpu.plan.analyse.findings import GUESS, LIKELY, SURE, Analysis, CodeFinding
from anygpu.plan.analyse.workload import characteristics
from anygpu.plan.hardware import models
from anygpu.trainers import registry
from anygpu.trainers.config import ALIASES, TrainingConfig
from anygpu.trainers.contract import PlannerHints

CONFIG_FILE = "config"


def analyse_trainer(trainer: str, config: Mapping[str, Any], *, gpus: int = 1) -> Analysis:
    """Analyse a job that uses a trainer on `gpus` GPUs, from the job's settings `config`.

    A built-in trainer also declares its framework, default model and model sizes (`PlannerHints`).
    """
    hints = registry.planner_hints(trainer)
    _, named_model = registry.parse_name(trainer)
    given = {ALIASES.get(name, name): value for name, value in config.items()}
    usual = {**asdict(TrainingConfig()), **registry.defaults(trainer)}
    on_cpu = not hints.needs_gpu or given.get("device") == "cpu"
    model = _model(named_model or str(given.get("model") or ""), hints)
    analysis = Analysis(
        frameworks=(CodeFinding(value=_framework(trainer, model, hints), file=CONFIG_FILE),),
        model=model,
        parameters=_parameters(model, hints) if hints.needs_gpu else None,
        batch_size=_number_or_default(given, "batch_size", usual) if hints.needs_gpu else None,
        epochs=_as_float(_number_or_default(given, "epochs", usual)),
        precision=CodeFinding(value="fp16" if given.get("amp") else "fp32", file=CONFIG_FILE),
        image_size=_setting(given, "image_size"),
        sequence_length=_setting(given, "block_size") or _setting(given, "max_length"),
        workers=_number_or_default(given, "workers", usual),
        checkpointing=_resumes(trainer),
        resuming=_resumes(trainer),
        requirements=hints.requirements,
        needs_gpu=CodeFinding(value=not on_cpu, file=CONFIG_FILE, confidence=SURE if on_cpu else LIKELY),
        **_sharing(trainer, gpus),
    )
    return replace(analysis, characteristics=characteristics(analysis))


def _sharing(trainer: str, gpus: int) -> dict[str, Any]:
    """Return the findings about several GPUs. The GPUs of a built-in trainer share each batch."""
    if gpus == 1 or not registry.can_use_several_gpus(trainer):
        return {}
    because = "the trainer starts one process for each GPU"
    return {
        "multi_gpu": CodeFinding(value="ddp", file=CONFIG_FILE, because=because),
        "gpus": CodeFinding(value=gpus, file=CONFIG_FILE),
        "split_across_gpus": CodeFinding(value="batch", file=CONFIG_FILE),
    }


def _resumes(trainer: str) -> CodeFinding[bool]:
    """Return the finding that the trainer saves checkpoints and resumes from them.

    This is certain for a built-in trainer. Other trainers should do so, but it has not been checked.
    """
    confidence = SURE if registry.is_built_in(trainer) else GUESS
    return CodeFinding(
        value=True, file=CONFIG_FILE, confidence=confidence, because="trainers save checkpoints and resume"
    )


def _model(named: str, hints: PlannerHints) -> CodeFinding[str] | None:
    if named:
        return CodeFinding(value=named, file=CONFIG_FILE)
    if not hints.default_model:
        return None
    return CodeFinding(value=hints.default_model, file=CONFIG_FILE, confidence=GUESS)


def _framework(trainer: str, model: CodeFinding[str] | None, hints: PlannerHints) -> str:
    of_model = hints.model_frameworks.get(model.value) if model is not None else None
    return of_model or hints.framework or trainer


def _parameters(model: CodeFinding[str] | None, hints: PlannerHints) -> CodeFinding[int] | None:
    if model is None:
        return None
    size = hints.parameters.get(model.value) or _known_size(model.value)
    if size is None:
        return None
    return CodeFinding(
        value=size, file=CONFIG_FILE, confidence=model.confidence, because=f"the size of {model.value}"
    )


def _known_size(model: str) -> int | None:
    """Return the number of parameters as published, as given in the name, or as declared by any trainer."""
    shape = models.find_model(model)
    size = shape.parameters if shape else models.parameters_in_name(model)
    return size or registry.declared_model_sizes().get(model)


def _setting(config: Mapping[str, Any], name: str) -> CodeFinding[int] | None:
    value = config.get(name)
    if isinstance(value, str):
        value = int(value) if value.isdecimal() and len(value) < 10 else 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 10**9:
        return None
    return CodeFinding(value=value, file=CONFIG_FILE)


def _number_or_default(config: Mapping[str, Any], name: str, usual: Mapping[str, Any]) -> CodeFinding[int]:
    default = CodeFinding(
        value=int(usual[name]), file=CONFIG_FILE, confidence=GUESS, because="the trainer's default"
    )
    return _setting(config, name) or default


def _as_float(finding: CodeFinding[int]) -> CodeFinding[float]:
    return CodeFinding(
        value=float(finding.value), file=finding.file, confidence=finding.confidence, because=finding.because
    )
