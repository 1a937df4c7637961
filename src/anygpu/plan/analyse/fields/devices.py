"""Find whether the code needs a GPU, whether it uses several GPUs, and whether their number is fixed."""

import ast
import re

from anygpu.plan.analyse.code.syntax import CallSite
from anygpu.plan.analyse.code.training_code import Code, count_finding
from anygpu.plan.analyse.code.values import Value
from anygpu.plan.analyse.findings import GUESS, LIKELY, SURE, CodeFinding

_CLASSES = {
    "DistributedDataParallel": "ddp",
    "DDP": "ddp",
    "init_process_group": "ddp",
    "init_distributed": "ddp",
    "init_distributed_mode": "ddp",
    "init_dist": "ddp",
    "init_distributed_device": "ddp",
    "FullyShardedDataParallel": "fsdp",
    "FSDP": "fsdp",
    "fully_shard": "fsdp",
    "DataParallel": "dp",
    "MirroredStrategy": "mirrored",
    "MultiWorkerMirroredStrategy": "mirrored",
    "TPUStrategy": "tpu",
    "pmap": "pmap",
    "DistributedOptimizer": "horovod",
    "create_device_mesh": "mesh",
}
_CLASSIC = ("sklearn", "xgboost", "lightgbm", "catboost", "gensim")
_DEEP = (
    "torch",
    "tensorflow",
    "keras",
    "jax",
    "transformers",
    "ultralytics",
    "fastai",
    "detectron2",
    "mxnet",
    "paddle",
)

MAX_LINE = 300
_PROCESSES = ("world_size", "WORLD_SIZE", "num_processes", "gpus", "device_count", "num_devices")
_DIVISION = re.compile(rf"(accum|batch_?size)\w*\)?\s*//?=?.*({'|'.join(_PROCESSES)})", re.IGNORECASE)


def multi_gpu(code: Code) -> CodeFinding[str] | None:
    """Return the method of multi-GPU training, such as "ddp" or "fsdp"; None if the code uses one GPU."""
    if code.imports("deepspeed") or _uses_deepspeed(code):
        where = code.facts.imports_any("deepspeed") or (code.facts.sources[0].name, 0)
        return CodeFinding(value="deepspeed", file=where[0], line=where[1], confidence=SURE)
    sharded = [c for c in code.facts.calls if _CLASSES.get(c.short_name) == "fsdp"]
    for call in [*sharded, *code.facts.calls]:
        kind = _CLASSES.get(call.short_name)
        if kind and not (call.short_name == "DistributedOptimizer" and not code.imports("horovod")):
            return CodeFinding(value=kind, file=call.file, line=call.line, confidence=SURE)
    return _by_trainer(code) or _hf_option(code) or _pmap(code)


def _hf_option(code: Code) -> CodeFinding[str] | None:
    """Find `--fsdp` or `--deepspeed`, which transformers' TrainingArguments accept on the command line."""
    for kind in ("fsdp", "deepspeed"):
        setting = code.settings.configured(kind) if code.uses_hf else None
        if setting is not None and setting.value not in (None, "", False):
            return CodeFinding(
                value=kind, file=setting.file, line=setting.line, confidence=setting.confidence
            )
    return None


def _pmap(code: Code) -> CodeFinding[str] | None:
    """Find `jax.pmap` by a text search.

    The text is searched because decorators such as `@functools.partial(jax.pmap, ...)` do not call it.
    """
    if not code.imports("jax"):
        return None
    for source in code.facts.sources:
        at = re.search(r"\bjax\.pmap\b|\bfrom jax import [^\n]{0,200}\bpmap\b|\bNamedSharding\b", source.text)
        if at is not None:
            line = source.text.count("\n", 0, at.start()) + 1
            return CodeFinding(value="pmap", file=source.name, line=line, confidence=LIKELY)
    return None


def _uses_deepspeed(code: Code) -> bool:
    return any(
        (setting := code.argument_value(call, "deepspeed", "strategy")) is not None
        and "deepspeed" in str(setting.value).lower()
        for call in [*code.hf_arguments, *code.lightning_trainers]
    ) or any(call.has("deepspeed") for call in code.hf_arguments)


def _by_trainer(code: Code) -> CodeFinding[str] | None:
    for call in code.lightning_trainers:
        strategy = _trainer_argument(code, call, "strategy")
        count = _devices(code, call)
        if strategy is not None and strategy.value not in ("auto", "single_device", None):
            kind = re.split(r"[_=]", str(strategy.value))[0]
            return CodeFinding(value=kind, file=call.file, line=call.line, confidence=SURE)
        if count is not None and count.value != 1:
            return CodeFinding(value="ddp", file=call.file, line=call.line, confidence=LIKELY)
    for call in code.yolo_trainings:
        if isinstance(call.argument("device"), ast.List | ast.Tuple):
            return CodeFinding(value="ddp", file=call.file, line=call.line, confidence=SURE)
    accelerator = code.facts.first_call("Accelerator")
    if accelerator is not None and code.imports("accelerate"):
        because = "accelerate uses all GPUs that it is launched on"
        return CodeFinding(
            value="accelerate",
            file=accelerator.file,
            line=accelerator.line,
            confidence=LIKELY,
            because=because,
        )
    return None


def gpus(code: Code) -> CodeFinding[int] | None:
    """Return the number of GPUs that the code or its arguments set; None if they set none."""
    for call in code.lightning_trainers:
        finding = _devices(code, call)
        if finding is not None:
            nodes = count_finding(code.argument_value(call, "num_nodes"))
            times = nodes.value if nodes is not None else 1
            return CodeFinding(
                value=finding.value * times,
                file=finding.file,
                line=finding.line,
                confidence=finding.confidence,
            )
    for call in code.yolo_trainings:
        node = call.argument("device")
        if isinstance(node, ast.List | ast.Tuple) and node.elts:
            return CodeFinding(value=len(node.elts), file=call.file, line=call.line, confidence=SURE)
    for call in code.facts.calls_of("init_process_group", "spawn", "DataParallel", "MirroredStrategy"):
        finding = _fixed_count(code, call)
        if finding is not None:
            return finding
    return None


def split_across_gpus(code: Code) -> CodeFinding[str] | None:
    """Return what the code divides by the number of processes: "batch" or "accumulation".

    "batch" means the batch size, "accumulation" the number of gradient accumulation steps.
    """
    for source in code.facts.sources:
        lines = source.text.splitlines() if _mentions_processes(source.text) else ()
        for number, line in enumerate(lines, 1):
            said = line.partition("#")[0]
            if len(said) < MAX_LINE and _mentions_processes(said) and _DIVISION.search(said):
                what = "accumulation" if "accum" in said.partition("=")[0] else "batch"
                return CodeFinding(value=what, file=source.name, line=number, confidence=LIKELY)
    return None


def _mentions_processes(text: str) -> bool:
    return any(word in text for word in _PROCESSES)


def _devices(code: Code, call: CallSite) -> CodeFinding[int] | None:
    node = call.argument("devices", "gpus")
    if isinstance(node, ast.List | ast.Tuple) and node.elts:
        return CodeFinding(value=len(node.elts), file=call.file, line=call.line, confidence=SURE)
    setting = _trainer_argument(code, call, "devices", "gpus")
    if setting is not None and isinstance(setting.value, str) and "," in setting.value:
        return CodeFinding(
            value=len(setting.value.split(",")), file=call.file, line=call.line, confidence=SURE
        )
    return count_finding(setting)


def _trainer_argument(code: Code, call: CallSite, *names: str) -> Value | None:
    """Return an argument of Lightning's Trainer, or its value in the configuration of LightningCLI."""
    if call.short_name != "LightningCLI":
        return code.settings.evaluate(call.argument(*names))
    return next((setting for name in names if (setting := code.settings.configured(f"trainer.{name}"))), None)


def _fixed_count(code: Code, call: CallSite) -> CodeFinding[int] | None:
    node = call.argument("world_size", "nprocs", "device_ids", "devices")
    if isinstance(node, ast.List | ast.Tuple):
        fixed = len(node.elts) > 1
        return (
            CodeFinding(value=len(node.elts), file=call.file, line=call.line, confidence=SURE)
            if fixed
            else None
        )
    setting = code.settings.evaluate(node)
    return count_finding(setting, at_least=2)


def needs_gpu(code: Code) -> CodeFinding[bool] | None:
    """Return whether the code needs a GPU: False if it uses only the CPU, None if unknown."""
    for reader in (_requests_cpu, _requests_gpu, _classic_ml, _stays_on_cpu, _deep_learning):
        finding = reader(code)
        if finding is not None:
            return finding
    return None


def _requests_cpu(code: Code) -> CodeFinding[bool] | None:
    for call in [
        *code.lightning_trainers,
        *code.hf_arguments,
        *code.yolo_trainings,
        *code.facts.calls_of("Accelerator"),
    ]:
        setting = code.argument_value(call, "accelerator", "device")
        flag = code.argument_value(call, "no_cuda", "use_cpu", "cpu")
        if (setting is not None and setting.value == "cpu") or (flag is not None and flag.value is True):
            return CodeFinding(
                value=False, file=call.file, line=call.line, confidence=SURE, because="selects the CPU"
            )
    for call in code.facts.calls:
        node = call.argument("device")
        chosen = isinstance(node, ast.IfExp)  # `'cpu' if ... else ...` may be either
        setting = code.settings.evaluate_text(node) if call.short_name[:1].isupper() and not chosen else None
        if setting is not None and setting.value == "cpu":
            return CodeFinding(
                value=False, file=call.file, line=call.line, confidence=LIKELY, because="selects the CPU"
            )
    setting = code.settings.find("device")
    if setting is not None and setting.value == "cpu" and not code.facts.first_call("is_available", "cuda"):
        return CodeFinding(
            value=False, file=setting.file, line=setting.line, confidence=LIKELY, because="selects the CPU"
        )
    return None


def _requests_gpu(code: Code) -> CodeFinding[bool] | None:
    for call in code.facts.calls:
        if call.short_name == "cuda" and not call.name.startswith("torch.cuda"):
            asks = code.facts.first_call("is_available") is not None  # the code may also run without a GPU
            sure = LIKELY if asks else SURE
            return CodeFinding(
                value=True, file=call.file, line=call.line, confidence=sure, because="calls .cuda()"
            )
        node = call.argument("device", "task_type", "tree_method", "device_type", position=0)
        setting = (
            code.settings.evaluate_text(node)
            if call.short_name in _TAKE_DEVICE or call.has(*_GPU_WORDS)
            else None
        )
        if setting is not None and re.match(r"(?i)cuda|gpu|hip|rocm", str(setting.value)):
            return CodeFinding(
                value=True,
                file=setting.file,
                line=setting.line,
                confidence=SURE if _places_tensors(call) and not _may_use_cpu(code) else LIKELY,
                because=f"selects {setting.value}",
            )
    for name in ("tree_method", "device", "task_type", "device_type"):
        setting = code.settings.find(name)
        if setting is not None and re.match(r"(?i)cuda|gpu", str(setting.value)):
            return CodeFinding(
                value=True,
                file=setting.file,
                line=setting.line,
                confidence=LIKELY,
                because=str(setting.value),
            )
    return None


def _places_tensors(call: CallSite) -> bool:
    """Return whether the call fails on a machine without the device that it names."""
    return call.short_name in _TAKE_DEVICE or call.name.startswith("torch.")


_CPU_TEXT = re.compile(r"""["']cpu["']|\bmps\b""")


def _may_use_cpu(code: Code) -> bool:
    """Return whether the code asks for the available devices or names another one, so that it may run without CUDA."""
    asks = ("is_available", "device_count", "current_accelerator", "is_cuda_available")
    return code.facts.first_call(*asks) is not None or any(
        _CPU_TEXT.search(source.text) for source in code.facts.sources
    )


_FIND_A_GPU = (
    "pytorch_lightning",
    "lightning",
    "tensorflow",
    "keras",
    "jax",
    "fastai",
    "accelerate",
    "detectron2",
    "mmengine",
    "mmcv",
    "sentence_transformers",
    "rfdetr",
    "deepspeed",
    "trl",
)
_TAKE_DEVICE = ("to", "device", "set_device", "Accelerator")
_GPU_WORDS = ("device", "task_type", "tree_method", "device_type")


def _classic_ml(code: Code) -> CodeFinding[bool] | None:
    where = code.facts.imports_any(*_CLASSIC)
    if where is None or code.imports(*_DEEP):
        return None
    return CodeFinding(
        value=False,
        file=where[0],
        line=where[1],
        confidence=LIKELY,
        because="its framework trains on the CPU",
    )


def _stays_on_cpu(code: Code) -> CodeFinding[bool] | None:
    """Find PyTorch code that runs on the CPU, because neither the code nor a framework selects a GPU."""
    finds_itself = (
        code.uses_hf or bool(code.lightning_trainers or code.yolo_trainings) or code.imports(*_FIND_A_GPU)
    )
    where = code.facts.imports_any("torch")
    if finds_itself or where is None or code.has_unseen_modules or _mentions_device(code):
        return None
    because = "moves nothing to a GPU"
    return CodeFinding(value=False, file=where[0], line=where[1], confidence=LIKELY, because=because)


def _mentions_device(code: Code) -> bool:
    return any(re.search(r"\bcuda\b|\.to\(|device", source.text) for source in code.facts.sources)


def _deep_learning(code: Code) -> CodeFinding[bool] | None:
    where = code.facts.imports_any(
        *_DEEP, "lightning", "pytorch_lightning", "timm", "accelerate", "sentence_transformers"
    )
    where = where or code.facts.imports_any("mmengine", "mmdet", "rfdetr", "theano", "chainer", "diffusers")
    if where is None:
        return None
    return CodeFinding(
        value=True,
        file=where[0],
        line=where[1],
        confidence=GUESS + 0.2,
        because="uses a deep learning framework",
    )
