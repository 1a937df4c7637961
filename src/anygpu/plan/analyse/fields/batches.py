"""Find the batch size per device and the number of gradient accumulation steps."""

import ast
import re
from collections.abc import Iterator

from anygpu.plan.analyse.code.syntax import CallSite, normalise_name
from anygpu.plan.analyse.code.training_code import Code, count_finding, framework_default
from anygpu.plan.analyse.code.values import Value
from anygpu.plan.analyse.findings import GUESS, LIKELY, CodeFinding

BOOSTING_PACKAGES = ("xgboost", "lightgbm", "catboost")


def named_number(code: Code, names: tuple[str, ...]) -> Value | None:
    """Return the value of the first of `names` that is a number; None if none is.

    A name also matches a setting inside a section of a configuration file.
    """
    for name in names:
        setting = code.settings.find(name)
        if (
            setting is not None
            and isinstance(setting.value, int | float)
            and not isinstance(setting.value, bool)
        ):
            return setting
    return None


def keyword_number(code: Code, names: tuple[str, ...]) -> CodeFinding[int] | None:
    """Return a number that is passed to any call under one of `names`, as in `train(model, batch_size=64)`.

    This is used if nothing better is known, so the confidence of the result is low.
    """
    for name in names:
        for bound in code.facts.bindings.get("=" + normalise_name(name), ()):
            finding = count_finding(code.settings.evaluate_number(bound.node), confidence=GUESS)
            if finding is not None:
                return finding
    return None


BATCH_NAMES = (
    "per_device_train_batch_size",
    "per_gpu_train_batch_size",
    "train_batch_size",
    "batch_size_train",
    "train_bs",
    "micro_batch_size",
    "device_batch_size",
    "minibatch_size",
    "mini_batch_size",
    "minibatch",
    "batch_size",
    "batchsize",
    "batch_size_per_gpu",
    "ims_per_batch",
    "train_micro_batch_size_per_gpu",
    "bs",
    "samples_per_gpu",
    "batch_per_gpu",
    "n_batch",
    "batch",
    "train_batch",
)
ACCUMULATION_NAMES = (
    "gradient_accumulation_steps",
    "accumulate_grad_batches",
    "grad_accum_steps",
    "accumulation_steps",
    "accum_steps",
    "accum_iter",
    "grad_accumulation_steps",
    "gradient_accumulation",
    "grad_accum",
    "accum",
)
_LOADER = re.compile(
    r"(data_?loader|create_loader|_loader$|loaders$|datamodule|iterator|generator)", re.IGNORECASE
)
_KERAS_SETS = ("image_dataset_from_directory", "flow_from_directory", "text_dataset_from_directory", "flow")


def batch_size(code: Code) -> CodeFinding[int] | None:
    """Return the batch size of one step on one device."""
    for reader in (_hf_batch, _yolo_batch, _loader_batch, _fit_batch, _named_batch):
        finding = reader(code)
        if finding is not None:
            return finding
    return None


def _hf_batch(code: Code) -> CodeFinding[int] | None:
    if not code.uses_hf:
        return None
    names = ("per_device_train_batch_size", "per_gpu_train_batch_size")
    for call in code.hf_arguments:
        finding = count_finding(code.argument_value(call, *names))
        if finding is not None:
            return finding
    finding = count_finding(code.settings.configured(names[0]))
    made = code.hf_arguments[0] if code.hf_arguments else code.hf_parser
    return finding or (
        framework_default(made, 8, "the default of TrainingArguments") if made is not None else None
    )


def _yolo_batch(code: Code) -> CodeFinding[int] | None:
    for call in code.yolo_trainings:
        setting = code.argument_value(call, "batch", "batch_size")
        return (
            count_finding(setting)
            if setting is not None
            else framework_default(call, 16, "ultralytics' default")
        )
    return None


def _loader_batch(code: Code) -> CodeFinding[int] | None:
    """Return the batch size of the data loader for training, rather than of those for validation or test."""
    bindings = reversed(code.facts.bindings.items())  # reversed, so that the first name of a node wins
    targets = {id(b.node): name for name, bound in bindings for b in bound}
    ranked = sorted(_loaders(code), key=lambda call: _not_training(targets.get(id(call.node), ""), call))
    for call in ranked:
        place = 1 if call.short_name.endswith("DataLoader") else None
        setting = code.argument_value(call, "batch_size", "bs", "train_batch_size", position=place)
        finding = count_finding(setting)
        if finding is not None:
            return finding
    bare = [
        c for c in ranked if c.short_name == "DataLoader" and not c.spreads and not c.has("batch_sampler")
    ]
    silent = [c for c in bare if c.argument("batch_size", position=1) is None]
    if silent and len(silent) == len(ranked):
        return framework_default(silent[0], 1, "the default of DataLoader")
    return None


def _loaders(code: Code) -> Iterator[CallSite]:
    return (
        call for call in code.facts.calls if _LOADER.search(call.short_name) or call.short_name in _KERAS_SETS
    )


def _not_training(target: str, call: CallSite) -> int:
    words = " ".join([target, ast.unparse(call.node)[:400], call.context.function]).lower()
    if re.search(r"train", words) and not re.search(r"(?<![a-z])(val|valid|test|eval)", words):
        return 0
    if "train" in words:
        return 1
    return 3 if re.search(r"val|test|eval", words) else 2


def _fit_batch(code: Code) -> CodeFinding[int] | None:
    for call in code.fit_calls:
        finding = count_finding(code.argument_value(call, "batch_size"))
        if finding is not None:
            return finding
    for call in code.facts.calls_of("batch"):
        finding = count_finding(code.argument_value(call, "batch_size", position=0), confidence=LIKELY)
        if finding is not None and code.imports("tensorflow", "keras", "tensorflow_datasets"):
            return finding
    if (
        code.imports("keras", "tensorflow")
        and code.fit_calls
        and not code.facts.first_call("batch", *_KERAS_SETS)
    ):
        named = _named_batch(code)
        return named or framework_default(code.fit_calls[0], 32, "the default of fit")
    return None


def _named_batch(code: Code) -> CodeFinding[int] | None:
    if code.imports(*BOOSTING_PACKAGES) and not code.imports("torch", "tensorflow", "keras", "jax"):
        return None
    return count_finding(named_number(code, BATCH_NAMES), confidence=LIKELY) or keyword_number(
        code, BATCH_NAMES
    )


def accumulation(code: Code) -> CodeFinding[int] | None:
    for call in [*code.hf_arguments, *code.lightning_trainers, *code.facts.calls_of("Accelerator")]:
        finding = count_finding(code.argument_value(call, *ACCUMULATION_NAMES))
        if finding is not None:
            return finding
    return count_finding(named_number(code, ACCUMULATION_NAMES), confidence=LIKELY)
