"""Whether a run can go on from what it saved: the half of an interruption that costs the money."""

import ast
import re

from anygpu.plan.analyse.code import Code
from anygpu.plan.analyse.findings import GUESS, LIKELY, SURE, Found
from anygpu.plan.analyse.saving import doubt, told_true

_RESUMES = (
    "load_state",
    "restore_checkpoint",
    "restore_or_initialize",
    "resume_path",
    "load_checkpoint",
    "resume_checkpoint",
    "resume_or_load",
    "restore",
    "maybe_resume",
)
_RESUME_WORD = re.compile(
    r"resume|restore|start_epoch|begin_epoch|initial_epoch|last_checkpoint|continue_train"
)
_RESUME_NAME = re.compile(r"(auto_?)?resume(_?(from|path|checkpoint|ckpt|training|epoch|dir|file)\w*)?$")
_LOADERS = ("load", "load_checkpoint", "restore")
_COUNTS = re.compile(r"epoch|step|iter|optim|^(it|ep)$")
_SEES_TRAINING = re.compile(r"optim|epoch|step|iter|sched|scaler|(^|[._])opt([._\d]|$)")


def resuming(code: Code) -> Found[bool] | None:
    """Whether a new process can go on where another stopped."""
    for reader in _READERS:
        found = reader(code)
        if found is not None:
            return found
    first = code.facts.sources[0].name if code.facts.sources else ""
    return Found(value=False, file=first, confidence=doubt(code), because="nothing loads a saved state")


def _resume_option(code: Code) -> Found[bool] | None:
    """Who offers --resume has written it, here or in a module that was not given."""
    for name, told in [*code.settings.options.items(), *code.settings.configs.items()]:
        if _RESUME_NAME.match(name):
            because = f"offers {name}"
            return Found(value=True, file=told.file, line=told.line, confidence=GUESS, because=because)
    offered = next((name for name in sorted(code.settings.silent) if _RESUME_NAME.match(name)), None)
    if offered is None:
        return None
    file = code.facts.sources[0].name
    return Found(value=True, file=file, confidence=GUESS, because=f"offers {offered}")


def _trainer_resume(code: Code) -> Found[bool] | None:
    for call in code.facts.calls:
        for name in ("resume_from_checkpoint", "ckpt_path", "resume"):
            node = call.argument(name)
            if node is None or call.last not in (
                "train",
                "fit",
                "Trainer",
                "TrainingArguments",
                "resume_or_load",
            ):
                continue
            off = isinstance(node, ast.Constant) and node.value in (None, False, "")
            if not off and call.around.function != "test":
                return Found(value=True, file=call.file, line=call.line, confidence=SURE, because=name)
    return None


def _loads_state(code: Code) -> Found[bool] | None:
    """The optimiser's state too, or with an epoch: weights alone are a fine-tuning, not a resume."""
    loads = [c for c in code.facts.calls_of("load_state_dict") if _SEES_TRAINING.search(c.base.lower())]
    if loads:
        return Found(
            value=True, file=loads[0].file, line=loads[0].line, confidence=SURE, because="loads its optimiser"
        )
    for call in code.facts.calls_of("load", "load_model", "load_weights", "load_state_dict"):
        if call.name.startswith(("json", "yaml", "np.", "numpy", "pickle")) and call.last == "load":
            continue
        words = " ".join(map(ast.unparse, [*call.around.branches, *call.node.args])).lower()
        if _RESUME_WORD.search(words):
            return Found(
                value=True, file=call.file, line=call.line, confidence=LIKELY, because="loads when resuming"
            )
    return None


def _reads_progress(code: Code) -> Found[bool] | None:
    """snapshot = torch.load(path); self.epochs_run = snapshot["EPOCHS_RUN"]: it goes on counting."""
    loaded = {name for name, made in code.facts.made_by.items() if made.rpartition(".")[2] in _LOADERS}
    for source in code.facts.sources if loaded else ():
        for node in ast.walk(source.tree):
            if (
                isinstance(node, ast.Subscript)
                and isinstance(node.value, ast.Name)
                and node.value.id in loaded
            ):
                key = node.slice.value if isinstance(node.slice, ast.Constant) else ""
                if isinstance(node.ctx, ast.Load) and _COUNTS.search(str(key).lower()):
                    return Found(
                        value=True, file=source.name, line=node.lineno, confidence=LIKELY, because=str(key)
                    )
    return None


def _resume_call(code: Code) -> Found[bool] | None:
    for call in code.facts.calls_of(*_RESUMES):
        node = call.argument("resume")
        if isinstance(node, ast.Constant) and node.value is False:
            continue
        if call.last == "resume_or_load" and node is None:
            continue
        if call.last == "restore" and not re.search(r"(?i)ckpt|check|manager|mngr|orbax|saver", call.name):
            continue
        return Found(value=True, file=call.file, line=call.line, confidence=LIKELY, because=call.last)
    return None


def _framework_resume(code: Code) -> Found[bool] | None:
    call = code.facts.first("BackupAndRestore")
    if call is not None:
        return Found(value=True, file=call.file, line=call.line, confidence=SURE, because="BackupAndRestore")
    for call in code.fits:
        if call.has("initial_epoch"):
            return Found(
                value=True, file=call.file, line=call.line, confidence=LIKELY, because="initial_epoch"
            )
    told = code.settings.given.get("resume_from_checkpoint") or code.settings.given.get("resume")
    if told is not None and told.value not in (False, None, ""):
        return Found(value=True, file=told.file, line=told.line, confidence=LIKELY, because=told.because)
    return None


def _booster_resume(code: Code) -> Found[bool] | None:
    for call in code.facts.calls:
        if told_true(code, call, "save_snapshot"):
            because = "goes on from its snapshot"
            return Found(value=True, file=call.file, line=call.line, confidence=SURE, because=because)
        if call.has("xgb_model", "init_model") or (
            code.has("sklearn", "catboost") and call.has("warm_start_from")
        ):
            node = call.argument("xgb_model", "init_model")
            if not (isinstance(node, ast.Constant) and node.value is None):
                return Found(
                    value=True,
                    file=call.file,
                    line=call.line,
                    confidence=LIKELY,
                    because="goes on from a model",
                )
    return None


_READERS = (
    _trainer_resume,
    _loads_state,
    _reads_progress,
    _resume_call,
    _framework_resume,
    _booster_resume,
    _resume_option,
)
