"""How much of the data one step takes: the batch of one device, and how many are added up."""

import ast
import re
from collections.abc import Iterator

from anygpu.plan.analyse.code import Code, default, whole
from anygpu.plan.analyse.facts import Call
from anygpu.plan.analyse.findings import LIKELY, Found
from anygpu.plan.analyse.names import BOOSTERS, keyword, numeric

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


def batch_size(code: Code) -> Found[int] | None:
    """The batch of one step on one device."""
    for reader in (_hf_batch, _yolo_batch, _loader_batch, _fit_batch, _named_batch):
        found = reader(code)
        if found is not None:
            return found
    return None


def _hf_batch(code: Code) -> Found[int] | None:
    if not code.uses_hf:
        return None
    names = ("per_device_train_batch_size", "per_gpu_train_batch_size")
    for call in code.hf:
        found = whole(code.value(call, *names))
        if found is not None:
            return found
    found = whole(code.settings.told(names[0]))
    made = code.hf[0] if code.hf else code.hf_parser
    return found or (default(made, 8, "the default of TrainingArguments") if made is not None else None)


def _yolo_batch(code: Code) -> Found[int] | None:
    for call in code.yolo:
        told = code.value(call, "batch", "batch_size")
        return whole(told) if told is not None else default(call, 16, "ultralytics' default")
    return None


def _loader_batch(code: Code) -> Found[int] | None:
    """The training loader's, not the validation's or the test's."""
    bindings = reversed(code.facts.assigned.items())  # the first name of each is kept
    targets = {id(b.node): name for name, bound in bindings for b in bound}
    ranked = sorted(_loaders(code), key=lambda call: _not_training(targets.get(id(call.node), ""), call))
    for call in ranked:
        place = 1 if call.last.endswith("DataLoader") else None
        told = code.value(call, "batch_size", "bs", "train_batch_size", position=place)
        found = whole(told)
        if found is not None:
            return found
    bare = [c for c in ranked if c.last == "DataLoader" and not c.spreads and not c.has("batch_sampler")]
    silent = [c for c in bare if c.argument("batch_size", position=1) is None]
    if silent and len(silent) == len(ranked):
        return default(silent[0], 1, "the default of DataLoader")
    return None


def _loaders(code: Code) -> Iterator[Call]:
    return (call for call in code.facts.calls if _LOADER.search(call.last) or call.last in _KERAS_SETS)


def _not_training(target: str, call: Call) -> int:
    words = " ".join([target, ast.unparse(call.node)[:400], call.around.function]).lower()
    if re.search(r"train", words) and not re.search(r"(?<![a-z])(val|valid|test|eval)", words):
        return 0
    if "train" in words:
        return 1
    return 3 if re.search(r"val|test|eval", words) else 2


def _fit_batch(code: Code) -> Found[int] | None:
    for call in code.fits:
        found = whole(code.value(call, "batch_size"))
        if found is not None:
            return found
    for call in code.facts.calls_of("batch"):
        found = whole(code.value(call, "batch_size", position=0), confidence=LIKELY)
        if found is not None and code.has("tensorflow", "keras", "tensorflow_datasets"):
            return found
    if code.has("keras", "tensorflow") and code.fits and not code.facts.first("batch", *_KERAS_SETS):
        named = _named_batch(code)
        return named or default(code.fits[0], 32, "the default of fit")
    return None


def _named_batch(code: Code) -> Found[int] | None:
    if code.has(*BOOSTERS) and not code.has("torch", "tensorflow", "keras", "jax"):
        return None
    return whole(numeric(code, BATCH_NAMES), confidence=LIKELY) or keyword(code, BATCH_NAMES)


def accumulation(code: Code) -> Found[int] | None:
    for call in [*code.hf, *code.lightning, *code.facts.calls_of("Accelerator")]:
        found = whole(code.value(call, *ACCUMULATION_NAMES))
        if found is not None:
            return found
    return whole(numeric(code, ACCUMULATION_NAMES), confidence=LIKELY)
