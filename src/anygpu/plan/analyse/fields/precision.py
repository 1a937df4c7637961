"""Find what determines memory and speed: precision, optimiser, input sizes, adapters, recomputation."""

import ast
import re

from anygpu.plan.analyse.code.syntax import CallSite, dotted_name
from anygpu.plan.analyse.code.training_code import Code, count_finding
from anygpu.plan.analyse.code.values import Value
from anygpu.plan.analyse.findings import GUESS, LIKELY, SURE, CodeFinding

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


def precision(code: Code) -> CodeFinding[str] | None:
    """Return the precision in which most of the arithmetic is done: fp32, fp16, bf16 or fp8."""
    if code.imports(*_CLASSIC) and not code.imports("torch", "tensorflow", "keras", "jax", "mxnet", "paddle"):
        return None
    readers = (
        _hf_precision,
        _trainer_argument,
        _autocast,
        _keras_policy,
        _half_methods,
        _load_dtype,
        _precision_flags,
        _yolo_precision,
    )
    for reader in readers:
        finding = reader(code)
        if finding is not None:
            return finding
    return _default_precision(code)


def named_precision(text: object) -> str:
    """Return the precision for a spelling such as "16-mixed", "bfloat16", 16 or "O2"; empty if unknown."""
    word = str(text).lower().replace("torch.", "").replace("jnp.", "")
    if "bf16" in word or "bfloat16" in word:
        return "bf16"
    if "fp8" in word or "float8" in word:
        return "fp8"
    if re.search(r"(?<!int)16|half|^o[12]$|^amp", word):
        return "fp16"
    return "fp32" if re.search(r"32|^no$|none|^o0$|full|64|float|double|single", word) else ""


def _hf_precision(code: Code) -> CodeFinding[str] | None:
    for name in ("bf16", "fp16", "bf16_full_eval"):
        for call in code.hf_arguments:
            setting = code.argument_value(call, name)
            if setting is not None and setting.value is True:
                return _finding(name.partition("_")[0], setting)
            if call.has(name) and setting is None:  # fp16=torch.cuda.is_available() and the like
                return CodeFinding(
                    value=name, file=call.file, line=call.line, confidence=LIKELY, because=name
                )
        setting = code.settings.configured(name) if code.uses_hf else None
        if setting is not None and setting.value is True:
            return _finding(name, setting)
    return None


def _finding(precision: str, setting: Value) -> CodeFinding[str]:
    return CodeFinding(
        value=precision,
        file=setting.file,
        line=setting.line,
        confidence=setting.confidence,
        because=setting.because,
    )


def _trainer_argument(code: Code) -> CodeFinding[str] | None:
    for call in [*code.lightning_trainers, *code.facts.calls_of("Accelerator", "Trainer", "Fabric")]:
        setting = code.argument_value(call, "precision", "mixed_precision", "fp16")
        word = named_precision(setting.value) if setting is not None and setting.value is not True else ""
        if setting is not None and setting.value is True:
            word = "fp16"
        if setting is not None and word:
            return _finding(word, setting)
    return None


def _autocast(code: Code) -> CodeFinding[str] | None:
    for call in code.facts.calls_of("autocast", "custom_autocast"):
        if code.is_skipped(call) or _BESIDE_TRAINING.search(call.context.function):
            continue
        enabled = code.argument_value(call, "enabled")
        if enabled is not None and enabled.value is False:
            return _finding("fp32", enabled)
        node = call.argument("dtype", position=None)
        return CodeFinding(
            value=_dtype(code, node) or "fp16", file=call.file, line=call.line, confidence=LIKELY
        )
    scaler = code.facts.first_call("initialize")
    if scaler is not None and "amp" in scaler.name:
        return CodeFinding(
            value="fp16", file=scaler.file, line=scaler.line, confidence=LIKELY, because="apex amp"
        )
    return None


def _dtype(code: Code, node: ast.expr | None) -> str:
    if node is None:
        return ""
    setting = code.settings.evaluate(node)
    direct = named_precision(setting.value) if setting is not None else ""
    written = ast.unparse(node)
    spelled = named_precision(written) if re.search(r"16|32", written) else ""
    return direct or spelled or _bound_dtype(code, node)


def _bound_dtype(code: Code, node: ast.expr) -> str:
    """Return the precision that is assigned to a variable; empty if unknown.

    Example: `dtype = torch.bfloat16 if ... else torch.float16`.
    """
    name = dotted_name(node, {}).rpartition(".")[2].lower()
    for bound in code.facts.bindings.get(name, ()):
        value = bound.node
        if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Dict):
            key = code.settings.evaluate(value.slice)
            word = named_precision(key.value) if key is not None else ""
        else:
            chosen = value.body if isinstance(value, ast.IfExp) else value
            word = named_precision(ast.unparse(chosen)) if re.search(r"16|32", ast.unparse(chosen)) else ""
        if word:
            return word
    return ""


def _keras_policy(code: Code) -> CodeFinding[str] | None:
    for call in code.facts.calls_of("set_global_policy", "set_policy", "set_dtype_policy", "Policy"):
        setting = code.argument_value(call, position=0)
        if setting is not None and named_precision(setting.value):
            return _finding(named_precision(setting.value), setting)
    return None


def _half_methods(code: Code) -> CodeFinding[str] | None:
    for call in code.facts.calls_of("to_fp16", "to_bf16", "half", "bfloat16"):
        if code.imports("torch", "fastai") and not call.node.args and not _is_evaluation(code, call):
            word = "bf16" if "b" in call.short_name[:5] and call.short_name != "to_fp16" else "fp16"
            return CodeFinding(
                value=word, file=call.file, line=call.line, confidence=LIKELY, because=call.short_name
            )
    return None


def _is_evaluation(code: Code, call: CallSite) -> bool:
    return code.is_skipped(call) or bool(
        re.search(r"eval|valid|test|infer|predict|sample|generate", call.context.function)
    )


def _load_dtype(code: Code) -> CodeFinding[str] | None:
    for call in code.facts.calls_of("from_pretrained", "from_config"):
        node = call.argument("torch_dtype", "dtype")
        word = _dtype(code, node) if node is not None else ""
        if word and not re.search(r"(?i)vae|encoder|tokenizer|pipeline", call.name):
            return CodeFinding(
                value=word,
                file=call.file,
                line=call.line,
                confidence=LIKELY,
                because="the model is loaded in this precision",
            )
    for name in ("dtype", "param_dtype"):
        for bound in code.facts.bindings.get("=" + name, ()):
            word = named_precision(ast.unparse(bound.node)) if code.imports("jax", "flax") else ""
            if word in ("bf16", "fp16"):
                return CodeFinding(value=word, file=bound.context.file, line=bound.line, confidence=GUESS)
    return None


def half_weights(code: Code) -> CodeFinding[bool] | None:
    """Return True if the weights are stored in 16 bits without a 32-bit copy, else None."""
    finding = _load_dtype(code) or _half_methods(code)
    if finding is None or finding.value not in ("fp16", "bf16") or code.imports("fastai", "jax"):
        return None
    return CodeFinding(
        value=True,
        file=finding.file,
        line=finding.line,
        confidence=finding.confidence,
        because=finding.because,
    )


def _precision_flags(code: Code) -> CodeFinding[str] | None:
    for name in _AMP_FLAGS:
        setting = code.settings.find(name) if "." in name else code.settings.configured(name)
        setting = setting or next(
            (v for call in code.fit_calls if (v := code.argument_value(call, name)) is not None), None
        )
        if setting is not None and setting.value is True:
            return _finding("bf16" if "bf16" in name else "fp16", setting)
    wrapper = code.settings.configs.get("optim_wrapper.type")
    if wrapper is not None and "amp" in str(wrapper.value).lower():
        return _finding("fp16", wrapper)
    for name in _AMP_NAMES:
        setting = code.settings.configured(name)
        word = named_precision(setting.value) if setting is not None and setting.value is not None else ""
        if setting is not None and word:
            return _finding(word, setting)
    return None


def _yolo_precision(code: Code) -> CodeFinding[str] | None:
    for call in code.yolo_trainings:
        setting = code.argument_value(call, "amp")
        off = setting is not None and setting.value is False
        because = "ultralytics uses mixed precision by default"
        return CodeFinding(
            value="fp32" if off else "fp16", file=call.file, line=call.line, confidence=0.6, because=because
        )
    return None


def _default_precision(code: Code) -> CodeFinding[str] | None:
    if not code.lightning_trainers and not code.imports(*_DEEP):
        return None
    first = code.facts.sources[0].name if code.facts.sources else ""
    return CodeFinding(value="fp32", file=first, confidence=0.6, because="the code sets no lower precision")


def optimiser(code: Code) -> CodeFinding[str] | None:
    for call in code.facts.calls:
        if _OPTIMISERS.match(call.short_name) and (
            call.node.args or call.node.keywords or code.imports("keras", "tensorflow")
        ):
            return CodeFinding(value=call.short_name.lower(), file=call.file, line=call.line, confidence=SURE)
    for call in [*code.hf_arguments, *code.yolo_trainings, *code.facts.calls_of("compile")]:
        setting = code.argument_value(
            call, "optim", "optimizer", position=0 if call.short_name == "compile" else None
        )
        if setting is not None and isinstance(setting.value, str):
            return _finding(setting.value.lower(), setting)
    setting = code.settings.find("optimizer", "optim", "opt", "optimizer_name")
    if setting is not None and isinstance(setting.value, str):
        return _finding(setting.value.lower(), setting)
    hf = code.hf_arguments[0] if code.hf_arguments else None
    return CodeFinding(value="adamw", file=hf.file, line=hf.line, confidence=0.6) if hf else None


def image_size(code: Code) -> CodeFinding[int] | None:
    for call in code.yolo_trainings:
        return count_finding(code.argument_value(call, "imgsz")) or CodeFinding(
            value=640, file=call.file, line=call.line, confidence=GUESS
        )
    for name in _IMAGE_NAMES:
        finding = count_finding(code.settings.find(name), at_least=8, confidence=LIKELY)
        if finding is not None:
            return finding
    for call in code.facts.calls_of(*_RESIZES):
        node = call.argument("size", "height", position=0)
        node = node.elts[0] if isinstance(node, ast.Tuple | ast.List) and node.elts else node
        finding = count_finding(code.settings.evaluate_number(node), at_least=8, confidence=LIKELY)
        if finding is not None:
            return finding
    return None


def sequence_length(code: Code) -> CodeFinding[int] | None:
    for name in _LENGTH_NAMES:
        finding = count_finding(code.settings.find(name), at_least=2, confidence=LIKELY)
        if finding is not None:
            return finding
    for call in code.facts.calls:
        finding = count_finding(
            code.argument_value(call, "max_length", "max_seq_length"), at_least=2, confidence=LIKELY
        )
        if finding is not None and call.has("max_length", "max_seq_length") and call.short_name != "generate":
            return finding
    return None


def adapters(code: Code) -> CodeFinding[str] | None:
    lora = code.facts.first_call("LoraConfig", "get_peft_model", "AdaLoraConfig", "add_adapter")
    if lora is None:
        return None
    small = [c for c in code.facts.calls if c.has("load_in_4bit", "load_in_8bit")]
    for call in small:
        setting = code.argument_value(call, "load_in_4bit")
        if setting is None or setting.value is not False:
            kind = "qlora" if call.has("load_in_4bit") else "lora-8bit"
            return CodeFinding(value=kind, file=call.file, line=call.line, confidence=SURE)
    return CodeFinding(value="lora", file=lora.file, line=lora.line, confidence=SURE)


def recomputes(code: Code) -> CodeFinding[bool] | None:
    for call in code.facts.calls_of(
        "gradient_checkpointing_enable", "enable_gradient_checkpointing", "set_grad_checkpointing"
    ):
        setting = code.argument_value(call, position=0)
        if setting is None or setting.value is not False:
            return CodeFinding(value=True, file=call.file, line=call.line, confidence=LIKELY)
    for call in code.hf_arguments:
        setting = code.argument_value(call, "gradient_checkpointing")
        if setting is not None and setting.value is True:
            return CodeFinding(
                value=True, file=setting.file, line=setting.line, confidence=setting.confidence
            )
    return None
