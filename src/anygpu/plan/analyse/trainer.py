"""A job for one of our trainers says in its settings what a script says in code."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from anygpu.plan.analyse.findings import GUESS, LIKELY, SURE, Analysis, CodeFinding
from anygpu.plan.analyse.workload import characteristics
from anygpu.plan.hardware import models
from anygpu.trainers.config import ALIASES, TrainingConfig
from anygpu.trainers.registry import defaults, parse_name

CONFIG_FILE = "config"
ON_CPU = ("tabular", "xgboost", "lightgbm")
DEFAULT_MODELS = {
    "yolo": "yolo11n",
    "rtdetr": "rtdetr-r18",
    "rfdetr": "rfdetr-nano",
    "nanogpt": "gpt-micro",
    "torch-classifier": "small-cnn",
}
# Millions: our own, and detectors by their papers (RT-DETR, Zhao et al. 2024; RF-DETR's own page, to be checked).
SIZES_M = {
    "small-cnn": 0.1,
    "gpt-nano": 0.08,
    "gpt-micro": 0.8,
    "gpt-mini": 10.6,
    "rtdetr-r18": 20,
    "rtdetr-r34": 31,
    "rtdetr-r50": 42,
    "rtdetr-r101": 76,
    "rfdetr-nano": 30.5,
    "rfdetr-small": 32.1,
    "rfdetr-medium": 33.7,
}
FRAMEWORKS = {
    "yolo": "ultralytics",
    "huggingface": "transformers",
    "rtdetr": "transformers",
    "tabular": "sklearn",
}


def analyse_trainer(trainer: str, config: Mapping[str, Any]) -> Analysis:
    """Analyse a job for a trainer from its settings. Of a third-party trainer only the settings are known."""
    known, named = parse_name(trainer)
    given = {ALIASES.get(name, name): value for name, value in config.items()}
    usual = {**asdict(TrainingConfig()), **defaults(trainer)}
    on_cpu = known in ON_CPU or given.get("device") == "cpu"
    model = _model(known, named or str(given.get("model") or ""))
    analysis = Analysis(
        frameworks=(
            CodeFinding(value=FRAMEWORKS.get(known, "torch" if known else trainer), file=CONFIG_FILE),
        ),
        model=model,
        parameters=None if known in ON_CPU else _parameters(model),
        batch_size=None if known in ON_CPU else _number_or_default(given, "batch_size", usual),
        epochs=_as_float(_number_or_default(given, "epochs", usual)),
        precision=CodeFinding(value="fp16" if given.get("amp") else "fp32", file=CONFIG_FILE),
        image_size=_setting(given, "image_size"),
        sequence_length=_setting(given, "block_size") or _setting(given, "max_length"),
        workers=_number_or_default(given, "workers", usual),
        checkpointing=_resumes(known),
        resuming=_resumes(known),
        requirements=() if not known or known in ON_CPU else ("torch",),
        needs_gpu=CodeFinding(value=not on_cpu, file=CONFIG_FILE, confidence=SURE if on_cpu else LIKELY),
    )
    return replace(analysis, characteristics=characteristics(analysis))


def _resumes(known: str) -> CodeFinding[bool]:
    """Each trainer of ours saves and goes on; of another's that is only the contract."""
    return CodeFinding(
        value=True, file=CONFIG_FILE, confidence=SURE if known else GUESS, because="trainers resume"
    )


def _model(known: str, named: str) -> CodeFinding[str] | None:
    if named:
        return CodeFinding(value=named, file=CONFIG_FILE)
    usual = DEFAULT_MODELS.get(known)
    return None if usual is None else CodeFinding(value=usual, file=CONFIG_FILE, confidence=GUESS)


def _parameters(model: CodeFinding[str] | None) -> CodeFinding[int] | None:
    if model is None:
        return None
    shape = models.find_model(model.value)
    own = round(SIZES_M.get(model.value, 0) * 1e6)
    size = own or (shape.parameters if shape else models.parameters_in_name(model.value))
    if size is None:
        return None
    return CodeFinding(
        value=size, file=CONFIG_FILE, confidence=model.confidence, because=f"the size of {model.value}"
    )


def _setting(config: Mapping[str, Any], name: str) -> CodeFinding[int] | None:
    value = config.get(name)
    if isinstance(value, str):
        value = int(value) if value.isdecimal() and len(value) < 10 else 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 10**9:
        return None
    return CodeFinding(value=value, file=CONFIG_FILE)


def _number_or_default(config: Mapping[str, Any], name: str, usual: Mapping[str, Any]) -> CodeFinding[int]:
    default = CodeFinding(value=int(usual[name]), file=CONFIG_FILE, confidence=GUESS, because="the default")
    return _setting(config, name) or default


def _as_float(finding: CodeFinding[int]) -> CodeFinding[float]:
    return CodeFinding(
        value=float(finding.value), file=finding.file, confidence=finding.confidence, because=finding.because
    )
