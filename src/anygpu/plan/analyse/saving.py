"""What survives an interruption: saves during training, how often, and where they go."""

import ast
import re
from collections.abc import Iterator

from anygpu.plan.analyse.code import Code, whole
from anygpu.plan.analyse.facts import Call
from anygpu.plan.analyse.findings import GUESS, LIKELY, SURE, Found
from anygpu.plan.analyse.settings import Value

_SAVES = (
    "save",
    "save_state",
    "save_pretrained",
    "save_checkpoint",
    "save_model",
    "save_weights",
    "save_states",
    "save_args",
    "dump",
    "checkpoint",
    "async_save",
    "save_accelerator_state",
)
_SAVES_SO = re.compile(r"save_(on_master|ckpt|snapshot|\w*checkpoint)$")  # a helper of the code's own
_NOT_SAVES = ("np.save", "numpy.save", "json.dump", "yaml.dump", "plt", "image", "fig", "Image", "toml.dump")
_CALLBACKS = (
    "ModelCheckpoint",
    "BackupAndRestore",
    "CheckpointManager",
    "CheckpointSaver",
    "DiskSaver",
    "CheckpointCallback",
    "SaveModelCallback",
)
_MM_TRAINS = ("train_detector", "train_segmentor", "train_model")
_PLACES = ("output_dir", "save_dir", "out_dir", "checkpoint_dir", "ckpt_dir", "work_dir")
_KEEPS = re.compile(
    r"(?i)torch|model|net|fabric|ckpt|checkpoint|manager|mngr|learn|keras|paddle|xm|self|agent"
)


def saves(code: Code) -> list[Call]:
    """Calls that write a model or a state."""
    named = (call for call in code.facts.calls if call.last in _SAVES or _SAVES_SO.match(call.last))
    return [call for call in named if _is_save(code, call)]


def _is_save(code: Code, call: Call) -> bool:
    if any(word in call.name for word in _NOT_SAVES):
        return False
    if call.last == "dump":
        return call.name.startswith(("joblib", "pickle", "dill", "cloudpickle"))
    if call.last == "checkpoint":
        return call.name.startswith("anygpu")
    if call.last == "save":
        return _KEEPS.search(call.name) is not None
    return True


def checkpointing(code: Code) -> Found[bool] | None:
    """Whether it saves while it trains, not only when it is done."""
    for reader in (
        _hf_saves,
        _lightning_saves,
        _yolo_saves,
        _callbacks,
        _configured,
        _snapshots,
        _loop_saves,
    ):
        found = reader(code)
        if found is not None:
            return found
    end = saves(code)
    if end:
        because = "saves once, when the training is over"
        return Found(value=False, file=end[0].file, line=end[0].line, confidence=LIKELY, because=because)
    first = code.facts.sources[0].name if code.facts.sources else ""
    return Found(value=False, file=first, confidence=doubt(code), because="nothing saves the model")


def doubt(code: Code) -> float:
    """What is not there may be in a module that was not given."""
    return GUESS - 0.1 if code.unseen else LIKELY


def _hf_saves(code: Code) -> Found[bool] | None:
    for call in code.hf:
        told = code.value(call, "save_strategy")
        off = told is not None and told.value == "no"
        because = "save_strategy is no" if off else "the Trainer saves"
        return Found(value=not off, file=call.file, line=call.line, confidence=LIKELY, because=because)
    parser = code.hf_parser
    if parser is None:
        return None
    told = code.settings.told("save_strategy")
    off = told is not None and told.value == "no"
    because = "save_strategy is no" if off else "the Trainer saves"
    return Found(value=not off, file=parser.file, line=parser.line, confidence=LIKELY, because=because)


def _lightning_saves(code: Code) -> Found[bool] | None:
    for call in (c for c in code.lightning if c.last != "Fabric"):
        told = code.value(call, "enable_checkpointing", "checkpoint_callback")
        off = told is not None and told.value is False
        because = "enable_checkpointing is False" if off else "Lightning saves after each epoch"
        return Found(value=not off, file=call.file, line=call.line, confidence=LIKELY, because=because)
    return None


def _yolo_saves(code: Code) -> Found[bool] | None:
    for call in code.yolo:
        told = code.value(call, "save")
        off = told is not None and told.value is False
        return Found(
            value=not off, file=call.file, line=call.line, confidence=LIKELY, because="ultralytics saves"
        )
    return None


def _callbacks(code: Code) -> Found[bool] | None:
    call = code.facts.first(*_CALLBACKS, "DefaultTrainer")
    call = call or (code.facts.first("Checkpoint") if code.has("ignite") else None)
    call = call or (code.facts.first("from_cfg", "Runner") if code.has("mmengine") else None)
    call = call or (code.facts.first(*_MM_TRAINS) if code.has("mmcv") else None)
    if call is None:
        return None
    return Found(value=True, file=call.file, line=call.line, confidence=SURE, because=call.last)


def _configured(code: Code) -> Found[bool] | None:
    """hydra makes what its configuration names: `_target_: lightning.pytorch.callbacks.ModelCheckpoint`."""
    for told in code.settings.configs.values():
        if isinstance(told.value, str) and told.value.endswith(".ModelCheckpoint"):
            return Found(value=True, file=told.file, line=told.line, confidence=LIKELY, because=told.value)
    return None


def _snapshots(code: Code) -> Found[bool] | None:
    """catboost keeps a snapshot of a boosting that it goes on from by itself."""
    for call in code.facts.calls:
        if told_true(code, call, "save_snapshot"):
            return Found(value=True, file=call.file, line=call.line, confidence=SURE, because="save_snapshot")
    return None


def told_true(code: Code, call: Call, name: str) -> bool:
    told = code.value(call, name) if call.has(name) else None
    return told is not None and told.value is True


def _loop_saves(code: Code) -> Found[bool] | None:
    for call in saves(code):
        often = any(modulo(code, guard) is not None for guard in call.around.guards)
        if code.facts.depth(call) > 0 or often:
            because = "saves every so often" if often else "saves in the loop"
            return Found(value=True, file=call.file, line=call.line, confidence=SURE, because=because)
    return None


def every(code: Code) -> Found[str] | None:
    """How often: "epoch", or a number of steps or epochs as written."""
    for call in code.hf:
        strategy, steps = code.value(call, "save_strategy"), code.value(call, "save_steps")
        if strategy is not None and strategy.value == "epoch":
            return _text("epoch", strategy)
        if strategy is None or strategy.value == "steps":
            return _counted(steps, "steps") if steps else _every("500 steps", call)
    for call in code.facts.calls_of("ModelCheckpoint"):
        return _counted(code.value(call, "every_n_train_steps"), "steps") or _every("epoch", call)
    if code.lightning or code.yolo:
        return _every("epoch", [*code.lightning, *code.yolo][0])
    return _every_in_loop(code)


def _counted(told: Value | None, unit: str) -> Found[str] | None:
    """None where it is no number of them: transformers take 0.1 for a tenth of the run."""
    count = whole(told)
    return None if told is None or count is None else _text(f"{count.value} {unit}", told)


def _every(value: str, call: Call) -> Found[str]:
    return Found(value=value, file=call.file, line=call.line, confidence=GUESS)


def _text(value: str, told: Value) -> Found[str]:
    return Found(value=value, file=told.file, line=told.line, confidence=told.confidence)


def _every_in_loop(code: Code) -> Found[str] | None:
    for call in saves(code):
        if code.facts.depth(call) == 0:
            continue
        step = next((n for guard in call.around.guards if (n := modulo(code, guard)) is not None), None)
        unit = "epochs" if _loop_word(call, "epoch") else "steps"
        if step is not None and step.value != 1:
            return _counted(step, unit)
        return _every("epoch" if unit == "epochs" or code.facts.depth(call) == 1 else "step", call)
    return None


def _loop_word(call: Call, word: str) -> bool:
    inner = call.around.loops[-1] if call.around.loops else None
    return isinstance(inner, ast.For) and word in ast.unparse(inner.target).lower()


def modulo(code: Code, test: ast.expr) -> Value | None:
    """N in `step % N == 0`, wherever it stands in a condition."""
    for node in ast.walk(test):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            found = code.settings.number(node.right)
            if whole(found) is not None:
                return found
    return None


def paths(code: Code) -> tuple[Found[str], ...]:
    """Where the saves go, as far as it is written."""
    return tuple(dict.fromkeys(_all_paths(code)))


def _all_paths(code: Code) -> Iterator[Found[str]]:
    for call in saves(code):
        position = 1 if call.name.startswith(("torch.save", "joblib", "pickle", "xm")) else 0
        told = code.settings.of(call.argument("f", "filepath", "path", "filename", position=position))
        told = told if told is not None and isinstance(told.value, str) else _joined(code, call, position)
        if told is not None and isinstance(told.value, str):
            yield _text(told.value, told)
    for call in [*code.hf, *code.lightning, *code.yolo, *code.facts.calls_of(*_CALLBACKS)]:
        told = code.settings.text(
            call.argument("output_dir", "default_root_dir", "dirpath", "filepath", "project")
        )
        told = told or (
            code.settings.text(call.argument(position=0)) if call.last == "ModelCheckpoint" else None
        )
        if told is not None:
            yield _text(str(told.value), told)
    yield from _asked_places(code)


def _asked_places(code: Code) -> Iterator[Found[str]]:
    """--output_dir names where saves go, whichever helper writes them."""
    for name in _PLACES:
        told = code.settings.given.get(name)
        if told is not None and isinstance(told.value, str):
            yield _text(told.value, told)


def _joined(code: Code, call: Call, position: int) -> Value | None:
    node = call.argument("f", "filepath", "path", position=position)
    if not isinstance(node, ast.Call) or not node.args:
        return None
    return code.settings.text(node.args[0])
