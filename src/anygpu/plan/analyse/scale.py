"""Where it wants to run: a GPU or not, one or several, and whether their number is fixed in the code."""

import ast
import re

from anygpu.plan.analyse.code import Code, whole
from anygpu.plan.analyse.facts import Call
from anygpu.plan.analyse.findings import GUESS, LIKELY, SURE, Found
from anygpu.plan.analyse.settings import Value

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

LONG_LINE = 300
_PROCESSES = ("world_size", "WORLD_SIZE", "num_processes", "gpus", "device_count", "num_devices")
_DIVIDED = re.compile(rf"(accum|batch_?size)\w*\)?\s*//?=?.*({'|'.join(_PROCESSES)})", re.IGNORECASE)


def multi_gpu(code: Code) -> Found[str] | None:
    """How it spreads over GPUs, or None when it uses one."""
    if code.has("deepspeed") or _deepspeed(code):
        where = code.facts.imports_any("deepspeed") or (code.facts.sources[0].name, 0)
        return Found(value="deepspeed", file=where[0], line=where[1], confidence=SURE)
    sharded = [c for c in code.facts.calls if _CLASSES.get(c.last) == "fsdp"]
    for call in [*sharded, *code.facts.calls]:
        kind = _CLASSES.get(call.last)
        if kind and not (call.last == "DistributedOptimizer" and not code.has("horovod")):
            return Found(value=kind, file=call.file, line=call.line, confidence=SURE)
    return _by_trainer(code) or _asked_of_hf(code) or _pmap(code)


def _asked_of_hf(code: Code) -> Found[str] | None:
    """TrainingArguments take --fsdp and --deepspeed from the command line."""
    for kind in ("fsdp", "deepspeed"):
        told = code.settings.told(kind) if code.uses_hf else None
        if told is not None and told.value not in (None, "", False):
            return Found(value=kind, file=told.file, line=told.line, confidence=told.confidence)
    return None


def _pmap(code: Code) -> Found[str] | None:
    """@functools.partial(jax.pmap, ...) calls nothing by that name."""
    if not code.has("jax"):
        return None
    for source in code.facts.sources:
        at = re.search(r"\bjax\.pmap\b|\bfrom jax import [^\n]{0,200}\bpmap\b|\bNamedSharding\b", source.text)
        if at is not None:
            line = source.text.count("\n", 0, at.start()) + 1
            return Found(value="pmap", file=source.name, line=line, confidence=LIKELY)
    return None


def _deepspeed(code: Code) -> bool:
    return any(
        (told := code.value(call, "deepspeed", "strategy")) is not None
        and "deepspeed" in str(told.value).lower()
        for call in [*code.hf, *code.lightning]
    ) or any(call.has("deepspeed") for call in code.hf)


def _by_trainer(code: Code) -> Found[str] | None:
    for call in code.lightning:
        strategy = _of_trainer(code, call, "strategy")
        count = _devices(code, call)
        if strategy is not None and strategy.value not in ("auto", "single_device", None):
            kind = re.split(r"[_=]", str(strategy.value))[0]
            return Found(value=kind, file=call.file, line=call.line, confidence=SURE)
        if count is not None and count.value != 1:
            return Found(value="ddp", file=call.file, line=call.line, confidence=LIKELY)
    for call in code.yolo:
        if isinstance(call.argument("device"), ast.List | ast.Tuple):
            return Found(value="ddp", file=call.file, line=call.line, confidence=SURE)
    accelerator = code.facts.first("Accelerator")
    if accelerator is not None and code.has("accelerate"):
        because = "accelerate spreads over what it is launched on"
        return Found(
            value="accelerate",
            file=accelerator.file,
            line=accelerator.line,
            confidence=LIKELY,
            because=because,
        )
    return None


def gpus(code: Code) -> Found[int] | None:
    """The number of GPUs the code or its arguments fix."""
    for call in code.lightning:
        found = _devices(code, call)
        if found is not None:
            nodes = whole(code.value(call, "num_nodes"))
            times = nodes.value if nodes is not None else 1
            return Found(
                value=found.value * times, file=found.file, line=found.line, confidence=found.confidence
            )
    for call in code.yolo:
        node = call.argument("device")
        if isinstance(node, ast.List | ast.Tuple) and node.elts:
            return Found(value=len(node.elts), file=call.file, line=call.line, confidence=SURE)
    for call in code.facts.calls_of("init_process_group", "spawn", "DataParallel", "MirroredStrategy"):
        found = _fixed(code, call)
        if found is not None:
            return found
    return None


def divided(code: Code) -> Found[str] | None:
    """What the processes share out: the `batch`, or the batches of a step (`accumulation`)."""
    for source in code.facts.sources:
        lines = source.text.splitlines() if _of_processes(source.text) else ()
        for number, line in enumerate(lines, 1):
            said = line.partition("#")[0]
            if len(said) < LONG_LINE and _of_processes(said) and _DIVIDED.search(said):
                what = "accumulation" if "accum" in said.partition("=")[0] else "batch"
                return Found(value=what, file=source.name, line=number, confidence=LIKELY)
    return None


def _of_processes(text: str) -> bool:
    return any(word in text for word in _PROCESSES)


def _devices(code: Code, call: Call) -> Found[int] | None:
    node = call.argument("devices", "gpus")
    if isinstance(node, ast.List | ast.Tuple) and node.elts:
        return Found(value=len(node.elts), file=call.file, line=call.line, confidence=SURE)
    told = _of_trainer(code, call, "devices", "gpus")
    if told is not None and isinstance(told.value, str) and "," in told.value:
        return Found(value=len(told.value.split(",")), file=call.file, line=call.line, confidence=SURE)
    return whole(told)


def _of_trainer(code: Code, call: Call, *names: str) -> Value | None:
    """What Lightning's Trainer is given; LightningCLI makes one from its configuration."""
    if call.last != "LightningCLI":
        return code.settings.of(call.argument(*names))
    return next((told for name in names if (told := code.settings.told(f"trainer.{name}"))), None)


def _fixed(code: Code, call: Call) -> Found[int] | None:
    node = call.argument("world_size", "nprocs", "device_ids", "devices")
    if isinstance(node, ast.List | ast.Tuple):
        fixed = len(node.elts) > 1
        return Found(value=len(node.elts), file=call.file, line=call.line, confidence=SURE) if fixed else None
    told = code.settings.of(node)
    return whole(told, at_least=2)


def needs_gpu(code: Code) -> Found[bool] | None:
    """False when it runs as well without one."""
    for reader in (_says_cpu, _says_gpu, _classic, _small, _deep):
        found = reader(code)
        if found is not None:
            return found
    return None


def _says_cpu(code: Code) -> Found[bool] | None:
    for call in [*code.lightning, *code.hf, *code.yolo, *code.facts.calls_of("Accelerator")]:
        told = code.value(call, "accelerator", "device")
        flag = code.value(call, "no_cuda", "use_cpu", "cpu")
        if (told is not None and told.value == "cpu") or (flag is not None and flag.value is True):
            return Found(
                value=False, file=call.file, line=call.line, confidence=SURE, because="asks for the CPU"
            )
    for call in code.facts.calls:
        node = call.argument("device")
        chosen = isinstance(node, ast.IfExp)  # 'cpu' if ... else ...: may be either
        told = code.settings.text(node) if call.last[:1].isupper() and not chosen else None
        if told is not None and told.value == "cpu":
            return Found(
                value=False, file=call.file, line=call.line, confidence=LIKELY, because="asks for the CPU"
            )
    told = code.settings.named("device")
    if told is not None and told.value == "cpu" and not code.facts.first("is_available", "cuda"):
        return Found(
            value=False, file=told.file, line=told.line, confidence=LIKELY, because="asks for the CPU"
        )
    return None


def _says_gpu(code: Code) -> Found[bool] | None:
    for call in code.facts.calls:
        if call.last == "cuda" and not call.name.startswith("torch.cuda"):
            asks = code.facts.first("is_available") is not None  # and may do without
            sure = LIKELY if asks else SURE
            return Found(value=True, file=call.file, line=call.line, confidence=sure, because="calls .cuda()")
        node = call.argument("device", "task_type", "tree_method", "device_type", position=0)
        told = code.settings.text(node) if call.last in _TAKE_DEVICE or call.has(*_GPU_WORDS) else None
        if told is not None and re.match(r"(?i)cuda|gpu|hip|rocm", str(told.value)):
            return Found(
                value=True, file=told.file, line=told.line, confidence=LIKELY, because=str(told.value)
            )
    for name in ("tree_method", "device", "task_type", "device_type"):
        told = code.settings.named(name)
        if told is not None and re.match(r"(?i)cuda|gpu", str(told.value)):
            return Found(
                value=True, file=told.file, line=told.line, confidence=LIKELY, because=str(told.value)
            )
    return None


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


def _classic(code: Code) -> Found[bool] | None:
    where = code.facts.imports_any(*_CLASSIC)
    if where is None or code.has(*_DEEP):
        return None
    return Found(value=False, file=where[0], line=where[1], confidence=LIKELY, because="trains on the CPU")


def _small(code: Code) -> Found[bool] | None:
    """Deep code that never mentions a device and has no framework that finds one by itself stays on the CPU."""
    finds_itself = code.uses_hf or bool(code.lightning or code.yolo) or code.has(*_FIND_A_GPU)
    where = code.facts.imports_any("torch")
    if finds_itself or where is None or code.unseen or _mentions_device(code):
        return None
    because = "never moves anything to a GPU"
    return Found(value=False, file=where[0], line=where[1], confidence=LIKELY, because=because)


def _mentions_device(code: Code) -> bool:
    return any(re.search(r"\bcuda\b|\.to\(|device", source.text) for source in code.facts.sources)


def _deep(code: Code) -> Found[bool] | None:
    where = code.facts.imports_any(
        *_DEEP, "lightning", "pytorch_lightning", "timm", "accelerate", "sentence_transformers"
    )
    where = where or code.facts.imports_any("mmengine", "mmdet", "rfdetr", "theano", "chainer", "diffusers")
    if where is None:
        return None
    return Found(value=True, file=where[0], line=where[1], confidence=GUESS + 0.2, because="a deep network")
