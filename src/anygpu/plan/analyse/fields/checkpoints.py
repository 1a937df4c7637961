"""Find whether, how often and where the code saves checkpoints."""

import ast
import re
from collections.abc import Iterator

from anygpu.plan.analyse.code.syntax import CallSite
from anygpu.plan.analyse.code.training_code import Code, count_finding
from anygpu.plan.analyse.code.values import Value
from anygpu.plan.analyse.findings import GUESS, LIKELY, SURE, CodeFinding

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
# Names of helper functions in the code.
_SAVE_HELPERS = re.compile(r"save_(on_master|ckpt|snapshot|\w*checkpoint)$")
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
_OUTPUT_OPTIONS = ("output_dir", "save_dir", "out_dir", "checkpoint_dir", "ckpt_dir", "work_dir")
_MODEL_WORDS = re.compile(
    r"(?i)torch|model|net|fabric|ckpt|checkpoint|manager|mngr|learn|keras|paddle|xm|self|agent"
)


def save_calls(code: Code) -> list[CallSite]:
    """Return the calls that save a model or a training state."""
    named = (
        call for call in code.facts.calls if call.short_name in _SAVES or _SAVE_HELPERS.match(call.short_name)
    )
    return [call for call in named if _is_save(code, call)]


def _is_save(code: Code, call: CallSite) -> bool:
    if any(word in call.name for word in _NOT_SAVES):
        return False
    if call.short_name == "dump":
        return call.name.startswith(("joblib", "pickle", "dill", "cloudpickle"))
    if call.short_name == "checkpoint":
        return call.name.startswith("anygpu")
    if call.short_name == "save":
        return _MODEL_WORDS.search(call.name) is not None
    return True


def checkpointing(code: Code) -> CodeFinding[bool] | None:
    """Return whether the code saves checkpoints during training, not only the model at the end."""
    for reader in (
        _hf_saves,
        _lightning_saves,
        _yolo_saves,
        _callbacks,
        _hydra_callback,
        _snapshots,
        _loop_saves,
    ):
        finding = reader(code)
        if finding is not None:
            return finding
    end = save_calls(code)
    if end:
        because = "saves only once, at the end of training"
        return CodeFinding(
            value=False, file=end[0].file, line=end[0].line, confidence=LIKELY, because=because
        )
    first = code.facts.sources[0].name if code.facts.sources else ""
    return CodeFinding(
        value=False, file=first, confidence=absence_confidence(code), because="nothing saves the model"
    )


def absence_confidence(code: Code) -> float:
    """Return how certain it is that something which was not found in the code is really not there (0 to 1).

    The confidence is lower if the code imports modules of its project that were not among the given files.
    """
    return GUESS - 0.1 if code.has_unseen_modules else LIKELY


def _hf_saves(code: Code) -> CodeFinding[bool] | None:
    for call in code.hf_arguments:
        setting = code.argument_value(call, "save_strategy")
        off = setting is not None and setting.value == "no"
        because = "save_strategy is no" if off else "the Trainer saves"
        return CodeFinding(value=not off, file=call.file, line=call.line, confidence=LIKELY, because=because)
    parser = code.hf_parser
    if parser is None:
        return None
    setting = code.settings.configured("save_strategy")
    off = setting is not None and setting.value == "no"
    because = "save_strategy is no" if off else "the Trainer saves"
    return CodeFinding(value=not off, file=parser.file, line=parser.line, confidence=LIKELY, because=because)


def _lightning_saves(code: Code) -> CodeFinding[bool] | None:
    for call in (c for c in code.lightning_trainers if c.short_name != "Fabric"):
        setting = code.argument_value(call, "enable_checkpointing", "checkpoint_callback")
        off = setting is not None and setting.value is False
        because = "enable_checkpointing is False" if off else "Lightning saves after each epoch"
        return CodeFinding(value=not off, file=call.file, line=call.line, confidence=LIKELY, because=because)
    return None


def _yolo_saves(code: Code) -> CodeFinding[bool] | None:
    for call in code.yolo_trainings:
        setting = code.argument_value(call, "save")
        off = setting is not None and setting.value is False
        return CodeFinding(
            value=not off, file=call.file, line=call.line, confidence=LIKELY, because="ultralytics saves"
        )
    return None


def _callbacks(code: Code) -> CodeFinding[bool] | None:
    call = code.facts.first_call(*_CALLBACKS, "DefaultTrainer")
    call = call or (code.facts.first_call("Checkpoint") if code.imports("ignite") else None)
    call = call or (code.facts.first_call("from_cfg", "Runner") if code.imports("mmengine") else None)
    call = call or (code.facts.first_call(*_MM_TRAINS) if code.imports("mmcv") else None)
    if call is None:
        return None
    return CodeFinding(value=True, file=call.file, line=call.line, confidence=SURE, because=call.short_name)


def _hydra_callback(code: Code) -> CodeFinding[bool] | None:
    """Find a checkpoint callback in a Hydra configuration.

    Example: `_target_: lightning.pytorch.callbacks.ModelCheckpoint`.
    """
    for setting in code.settings.configs.values():
        if isinstance(setting.value, str) and setting.value.endswith(".ModelCheckpoint"):
            return CodeFinding(
                value=True, file=setting.file, line=setting.line, confidence=LIKELY, because=setting.value
            )
    return None


def _snapshots(code: Code) -> CodeFinding[bool] | None:
    """Find catboost's option `save_snapshot`, with which catboost saves its state and resumes by itself."""
    for call in code.facts.calls:
        if is_argument_true(code, call, "save_snapshot"):
            return CodeFinding(
                value=True, file=call.file, line=call.line, confidence=SURE, because="save_snapshot"
            )
    return None


def is_argument_true(code: Code, call: CallSite, name: str) -> bool:
    setting = code.argument_value(call, name) if call.has(name) else None
    return setting is not None and setting.value is True


def _loop_saves(code: Code) -> CodeFinding[bool] | None:
    for call in save_calls(code):
        often = any(modulo_value(code, guard) is not None for guard in call.context.guards)
        if code.facts.loop_depth(call) > 0 or often:
            because = "saves in the training loop at an interval" if often else "saves in the training loop"
            return CodeFinding(value=True, file=call.file, line=call.line, confidence=SURE, because=because)
    return None


def checkpoint_every(code: Code) -> CodeFinding[str] | None:
    """Return the checkpoint interval: "epoch", or a number of steps or epochs."""
    for call in code.hf_arguments:
        strategy, steps = code.argument_value(call, "save_strategy"), code.argument_value(call, "save_steps")
        if strategy is not None and strategy.value == "epoch":
            return _text_finding("epoch", strategy)
        if strategy is None or strategy.value == "steps":
            return _count_text(steps, "steps") if steps else _default_every("500 steps", call)
    for call in code.facts.calls_of("ModelCheckpoint"):
        return _count_text(code.argument_value(call, "every_n_train_steps"), "steps") or _default_every(
            "epoch", call
        )
    if code.lightning_trainers or code.yolo_trainings:
        return _default_every("epoch", [*code.lightning_trainers, *code.yolo_trainings][0])
    return _every_in_loop(code)


def _count_text(setting: Value | None, unit: str) -> CodeFinding[str] | None:
    """Return a checkpoint interval as text, such as "500 steps".

    Return None if the setting is not a count. For example, 0.1 means a tenth of the training.
    """
    count = count_finding(setting)
    return None if setting is None or count is None else _text_finding(f"{count.value} {unit}", setting)


def _default_every(value: str, call: CallSite) -> CodeFinding[str]:
    return CodeFinding(value=value, file=call.file, line=call.line, confidence=GUESS)


def _text_finding(value: str, setting: Value) -> CodeFinding[str]:
    return CodeFinding(value=value, file=setting.file, line=setting.line, confidence=setting.confidence)


def _every_in_loop(code: Code) -> CodeFinding[str] | None:
    for call in save_calls(code):
        if code.facts.loop_depth(call) == 0:
            continue
        step = next(
            (n for guard in call.context.guards if (n := modulo_value(code, guard)) is not None), None
        )
        unit = "epochs" if _loop_word(call, "epoch") else "steps"
        if step is not None and step.value != 1:
            return _count_text(step, unit)
        return _default_every(
            "epoch" if unit == "epochs" or code.facts.loop_depth(call) == 1 else "step", call
        )
    return None


def _loop_word(call: CallSite, word: str) -> bool:
    inner = call.context.loops[-1] if call.context.loops else None
    return isinstance(inner, ast.For) and word in ast.unparse(inner.target).lower()


def modulo_value(code: Code, test: ast.expr) -> Value | None:
    """Return the value of N if a condition contains `step % N`; None if it does not."""
    for node in ast.walk(test):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            finding = code.settings.evaluate_number(node.right)
            if count_finding(finding) is not None:
                return finding
    return None


def checkpoint_paths(code: Code) -> tuple[CodeFinding[str], ...]:
    """Return the paths to which the code saves checkpoints, as far as they are known without running it."""
    return tuple(dict.fromkeys(_all_paths(code)))


def _all_paths(code: Code) -> Iterator[CodeFinding[str]]:
    for call in save_calls(code):
        position = 1 if call.name.startswith(("torch.save", "joblib", "pickle", "xm")) else 0
        setting = code.settings.evaluate(
            call.argument("f", "filepath", "path", "filename", position=position)
        )
        setting = (
            setting
            if setting is not None and isinstance(setting.value, str)
            else _first_path_part(code, call, position)
        )
        if setting is not None and isinstance(setting.value, str):
            yield _text_finding(setting.value, setting)
    for call in [
        *code.hf_arguments,
        *code.lightning_trainers,
        *code.yolo_trainings,
        *code.facts.calls_of(*_CALLBACKS),
    ]:
        setting = code.settings.evaluate_text(
            call.argument("output_dir", "default_root_dir", "dirpath", "filepath", "project")
        )
        setting = setting or (
            code.settings.evaluate_text(call.argument(position=0))
            if call.short_name == "ModelCheckpoint"
            else None
        )
        if setting is not None:
            yield _text_finding(str(setting.value), setting)
    yield from _given_directories(code)


def _given_directories(code: Code) -> Iterator[CodeFinding[str]]:
    """Yield the output directories that the command line gives, such as by `--output_dir`."""
    for name in _OUTPUT_OPTIONS:
        setting = code.settings.command_line.get(name)
        if setting is not None and isinstance(setting.value, str):
            yield _text_finding(setting.value, setting)


def _first_path_part(code: Code, call: CallSite, position: int) -> Value | None:
    node = call.argument("f", "filepath", "path", position=position)
    if not isinstance(node, ast.Call) or not node.args:
        return None
    return code.settings.evaluate_text(node.args[0])
