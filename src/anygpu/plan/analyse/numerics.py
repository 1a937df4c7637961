"""How the numbers are kept: precision, optimiser, input sizes, adapters, recomputation."""

import ast
import re

from anygpu.plan.analyse.code import Code, whole
from anygpu.plan.analyse.facts import Call, dotted
from anygpu.plan.analyse.findings import GUESS, LIKELY, SURE, Found
from anygpu.plan.analyse.settings import Value

_AMP_NAMES = ("mixed_precision", "precision", "amp_dtype", "autocast_dtype")
_DEEP = (
    "torch",
    "tensorflow",
    "keras",
    "jax",
    "fastai",
    "transformers",
    "paddle",
    "mxnet",
    "detectron2",
    "mmcv",
    "mmengine",
    "rfdetr",
    "theano",
    "chainer",
    "lightning",
    "pytorch_lightning",
    "sentence_transformers",
)
_CLASSIC = ("xgboost", "lightgbm", "catboost", "sklearn")
_AMP_FLAGS = ("bf16", "fp16", "amp", "use_amp", "half_precision", "fp16.enabled", "bf16.enabled", "use_fp16")
_OPTIMISERS = re.compile(
    r"(?i)^(adamw?(8bit|_?bnb.*|w_8bit)?|paged_?adamw.*|sgd|rmsprop|adagrad|adadelta|adamax|nadam|radam|lamb|"
    r"lars|lion|adafactor|muon|novograd|fusedadam|fusedlamb|deepspeedcpuadam|lbfgs|momentum)$"
)
_IMAGE_NAMES = (
    "imgsz",
    "img_size",
    "image_size",
    "input_size",
    "resolution",
    "crop_size",
    "train_crop_size",
    "im_size",
)
_LENGTH_NAMES = (
    "max_seq_length",
    "max_length",
    "block_size",
    "seq_len",
    "seq_length",
    "max_seq_len",
    "max_len",
    "bptt",
)
_BESIDE_TRAINING = re.compile(r"(?i)valid|eval|test|infer|sampl|generat|predict")
_RESIZES = ("RandomResizedCrop", "Resize", "CenterCrop", "RandomCrop", "Resizing")


def precision(code: Code) -> Found[str] | None:
    """fp32, fp16 or bf16: what the heavy arithmetic is done in."""
    if code.has(*_CLASSIC) and not code.has("torch", "tensorflow", "keras", "jax", "mxnet", "paddle"):
        return None
    readers = (_hf, _trainer_argument, _autocast, _policy, _methods, _loaded_as, _flags, _yolo)
    for reader in readers:
        found = reader(code)
        if found is not None:
            return found
    return _nothing_said(code)


def named_precision(text: object) -> str:
    """The many spellings: "16-mixed", "bfloat16", 16, "torch.float16", "O2"."""
    word = str(text).lower().replace("torch.", "").replace("jnp.", "")
    if "bf16" in word or "bfloat16" in word:
        return "bf16"
    if "fp8" in word or "float8" in word:
        return "fp8"
    if re.search(r"(?<!int)16|half|^o[12]$|^amp", word):
        return "fp16"
    return "fp32" if re.search(r"32|^no$|none|^o0$|full|64|float|double|single", word) else ""


def _hf(code: Code) -> Found[str] | None:
    for name in ("bf16", "fp16", "bf16_full_eval"):
        for call in code.hf:
            told = code.value(call, name)
            if told is not None and told.value is True:
                return _said(name.partition("_")[0], told)
            if call.has(name) and told is None:  # fp16=torch.cuda.is_available() and the like
                return Found(value=name, file=call.file, line=call.line, confidence=LIKELY, because=name)
        told = code.settings.told(name) if code.uses_hf else None
        if told is not None and told.value is True:
            return _said(name, told)
    return None


def _said(precision: str, told: Value) -> Found[str]:
    return Found(
        value=precision, file=told.file, line=told.line, confidence=told.confidence, because=told.because
    )


def _trainer_argument(code: Code) -> Found[str] | None:
    for call in [*code.lightning, *code.facts.calls_of("Accelerator", "Trainer", "Fabric")]:
        told = code.value(call, "precision", "mixed_precision", "fp16")
        word = named_precision(told.value) if told is not None and told.value is not True else ""
        if told is not None and told.value is True:
            word = "fp16"
        if told is not None and word:
            return _said(word, told)
    return None


def _autocast(code: Code) -> Found[str] | None:
    for call in code.facts.calls_of("autocast", "custom_autocast"):
        if code.passed_over(call) or _BESIDE_TRAINING.search(call.around.function):
            continue
        enabled = code.value(call, "enabled")
        if enabled is not None and enabled.value is False:
            return _said("fp32", enabled)
        node = call.argument("dtype", position=None)
        return Found(value=_dtype(code, node) or "fp16", file=call.file, line=call.line, confidence=LIKELY)
    scaler = code.facts.first("initialize")
    if scaler is not None and "amp" in scaler.name:
        return Found(value="fp16", file=scaler.file, line=scaler.line, confidence=LIKELY, because="apex amp")
    return None


def _dtype(code: Code, node: ast.expr | None) -> str:
    if node is None:
        return ""
    told = code.settings.of(node)
    direct = named_precision(told.value) if told is not None else ""
    written = ast.unparse(node)
    spelled = named_precision(written) if re.search(r"16|32", written) else ""
    return direct or spelled or _through(code, node)


def _through(code: Code, node: ast.expr) -> str:
    """`ptdtype = {...}[dtype]` and `dtype = torch.bfloat16 if ... else torch.float16`."""
    name = dotted(node, {}).rpartition(".")[2].lower()
    for bound in code.facts.assigned.get(name, ()):
        value = bound.node
        if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Dict):
            key = code.settings.of(value.slice)
            word = named_precision(key.value) if key is not None else ""
        else:
            chosen = value.body if isinstance(value, ast.IfExp) else value
            word = named_precision(ast.unparse(chosen)) if re.search(r"16|32", ast.unparse(chosen)) else ""
        if word:
            return word
    return ""


def _policy(code: Code) -> Found[str] | None:
    for call in code.facts.calls_of("set_global_policy", "set_policy", "set_dtype_policy", "Policy"):
        told = code.value(call, position=0)
        if told is not None and named_precision(told.value):
            return _said(named_precision(told.value), told)
    return None


def _methods(code: Code) -> Found[str] | None:
    for call in code.facts.calls_of("to_fp16", "to_bf16", "half", "bfloat16"):
        if code.has("torch", "fastai") and not call.node.args and not _in_eval(code, call):
            word = "bf16" if "b" in call.last[:5] and call.last != "to_fp16" else "fp16"
            return Found(value=word, file=call.file, line=call.line, confidence=LIKELY, because=call.last)
    return None


def _in_eval(code: Code, call: Call) -> bool:
    return code.passed_over(call) or bool(
        re.search(r"eval|valid|test|infer|predict|sample|generate", call.around.function)
    )


def _loaded_as(code: Code) -> Found[str] | None:
    for call in code.facts.calls_of("from_pretrained", "from_config"):
        node = call.argument("torch_dtype", "dtype")
        word = _dtype(code, node) if node is not None else ""
        if word and not re.search(r"(?i)vae|encoder|tokenizer|pipeline", call.name):
            return Found(value=word, file=call.file, line=call.line, confidence=LIKELY, because="loaded so")
    for name in ("dtype", "param_dtype"):
        for bound in code.facts.assigned.get("=" + name, ()):
            word = named_precision(ast.unparse(bound.node)) if code.has("jax", "flax") else ""
            if word in ("bf16", "fp16"):
                return Found(value=word, file=bound.around.file, line=bound.line, confidence=GUESS)
    return None


def half_weights(code: Code) -> Found[bool] | None:
    """No 32-bit copy of the weights is kept."""
    found = _loaded_as(code) or _methods(code)
    if found is None or found.value not in ("fp16", "bf16") or code.has("fastai", "jax"):
        return None
    return Found(
        value=True, file=found.file, line=found.line, confidence=found.confidence, because=found.because
    )


def _flags(code: Code) -> Found[str] | None:
    for name in _AMP_FLAGS:
        told = code.settings.named(name) if "." in name else code.settings.told(name)
        told = told or next((v for call in code.fits if (v := code.value(call, name)) is not None), None)
        if told is not None and told.value is True:
            return _said("bf16" if "bf16" in name else "fp16", told)
    wrapper = code.settings.configs.get("optim_wrapper.type")
    if wrapper is not None and "amp" in str(wrapper.value).lower():
        return _said("fp16", wrapper)
    for name in _AMP_NAMES:
        told = code.settings.told(name)
        word = named_precision(told.value) if told is not None and told.value is not None else ""
        if told is not None and word:
            return _said(word, told)
    return None


def _yolo(code: Code) -> Found[str] | None:
    for call in code.yolo:
        told = code.value(call, "amp")
        off = told is not None and told.value is False
        because = "ultralytics mixes precision by default"
        return Found(
            value="fp32" if off else "fp16", file=call.file, line=call.line, confidence=0.6, because=because
        )
    return None


def _nothing_said(code: Code) -> Found[str] | None:
    if not code.lightning and not code.has(*_DEEP):
        return None
    first = code.facts.sources[0].name if code.facts.sources else ""
    return Found(value="fp32", file=first, confidence=0.6, because="nothing asks for less")


def optimiser(code: Code) -> Found[str] | None:
    for call in code.facts.calls:
        if _OPTIMISERS.match(call.last) and (
            call.node.args or call.node.keywords or code.has("keras", "tensorflow")
        ):
            return Found(value=call.last.lower(), file=call.file, line=call.line, confidence=SURE)
    for call in [*code.hf, *code.yolo, *code.facts.calls_of("compile")]:
        told = code.value(call, "optim", "optimizer", position=0 if call.last == "compile" else None)
        if told is not None and isinstance(told.value, str):
            return _said(told.value.lower(), told)
    told = code.settings.named("optimizer", "optim", "opt", "optimizer_name")
    if told is not None and isinstance(told.value, str):
        return _said(told.value.lower(), told)
    hf = code.hf[0] if code.hf else None
    return Found(value="adamw", file=hf.file, line=hf.line, confidence=0.6) if hf else None


def image_size(code: Code) -> Found[int] | None:
    for call in code.yolo:
        return whole(code.value(call, "imgsz")) or Found(
            value=640, file=call.file, line=call.line, confidence=GUESS
        )
    for name in _IMAGE_NAMES:
        found = whole(code.settings.named(name), at_least=8, confidence=LIKELY)
        if found is not None:
            return found
    for call in code.facts.calls_of(*_RESIZES):
        node = call.argument("size", "height", position=0)
        node = node.elts[0] if isinstance(node, ast.Tuple | ast.List) and node.elts else node
        found = whole(code.settings.number(node), at_least=8, confidence=LIKELY)
        if found is not None:
            return found
    return None


def sequence_length(code: Code) -> Found[int] | None:
    for name in _LENGTH_NAMES:
        found = whole(code.settings.named(name), at_least=2, confidence=LIKELY)
        if found is not None:
            return found
    for call in code.facts.calls:
        found = whole(code.value(call, "max_length", "max_seq_length"), at_least=2, confidence=LIKELY)
        if found is not None and call.has("max_length", "max_seq_length") and call.last != "generate":
            return found
    return None


def adapters(code: Code) -> Found[str] | None:
    lora = code.facts.first("LoraConfig", "get_peft_model", "AdaLoraConfig", "add_adapter")
    if lora is None:
        return None
    small = [c for c in code.facts.calls if c.has("load_in_4bit", "load_in_8bit")]
    for call in small:
        told = code.value(call, "load_in_4bit")
        if told is None or told.value is not False:
            kind = "qlora" if call.has("load_in_4bit") else "lora-8bit"
            return Found(value=kind, file=call.file, line=call.line, confidence=SURE)
    return Found(value="lora", file=lora.file, line=lora.line, confidence=SURE)


def recomputes(code: Code) -> Found[bool] | None:
    for call in code.facts.calls_of(
        "gradient_checkpointing_enable", "enable_gradient_checkpointing", "set_grad_checkpointing"
    ):
        told = code.value(call, position=0)
        if told is None or told.value is not False:
            return Found(value=True, file=call.file, line=call.line, confidence=LIKELY)
    for call in code.hf:
        told = code.value(call, "gradient_checkpointing")
        if told is not None and told.value is True:
            return Found(value=True, file=told.file, line=told.line, confidence=told.confidence)
    return None
