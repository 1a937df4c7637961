"""Find whether the code can resume from a checkpoint."""

import ast
import re

from anygpu.plan.analyse.code.training_code import Code
from anygpu.plan.analyse.fields.checkpoints import absence_confidence, is_argument_true
from anygpu.plan.analyse.findings import GUESS, LIKELY, SURE, CodeFinding

_RESUME_CALLS = (
    "load_state",
    "restore_checkpoint",
    "restore_or_initialize",
    "load_checkpoint",
    "resume_checkpoint",
    "resume_or_load",
    "restore",
    "maybe_resume",
)
RESUME_VARIABLE = "ANYGPU_RESUME_PATH"
_RESUME_WORD = re.compile(
    r"resume|restore|start_epoch|begin_epoch|initial_epoch|last_checkpoint|continue_train"
)
_RESUME_NAME = re.compile(r"(auto_?)?resume(_?(from|path|checkpoint|ckpt|training|epoch|dir|file)\w*)?$")
_LOADERS = ("load", "load_checkpoint", "restore")
_COUNTS = re.compile(r"epoch|step|iter|optim|^(it|ep)$")
_SEES_TRAINING = re.compile(r"optim|epoch|step|iter|sched|scaler|(^|[._])opt([._\d]|$)")


def find_resuming(code: Code) -> CodeFinding[bool] | None:
    """Return whether the code can resume an interrupted training in a new process."""
    for reader in _READERS:
        finding = reader(code)
        if finding is not None:
            return finding
    first = code.facts.sources[0].name if code.facts.sources else ""
    return CodeFinding(
        value=False, file=first, confidence=absence_confidence(code), because="nothing loads a saved state"
    )


def _resume_option(code: Code) -> CodeFinding[bool] | None:
    """Find an option or setting such as `--resume`.

    Such an option suggests that the code can resume, even if the given files do not show how.
    """
    for name, setting in [*code.settings.option_defaults.items(), *code.settings.configs.items()]:
        if _RESUME_NAME.match(name):
            because = f"has the option {name}"
            return CodeFinding(
                value=True, file=setting.file, line=setting.line, confidence=GUESS, because=because
            )
    offered = next((name for name in sorted(code.settings.without_default) if _RESUME_NAME.match(name)), None)
    if offered is None:
        return None
    file = code.facts.sources[0].name
    return CodeFinding(value=True, file=file, confidence=GUESS, because=f"has the option {offered}")


def _trainer_resume(code: Code) -> CodeFinding[bool] | None:
    for call in code.facts.calls:
        for name in ("resume_from_checkpoint", "ckpt_path", "resume"):
            node = call.argument(name)
            if node is None or call.short_name not in (
                "train",
                "fit",
                "Trainer",
                "TrainingArguments",
                "resume_or_load",
            ):
                continue
            off = isinstance(node, ast.Constant) and node.value in (None, False, "")
            if not off and call.context.function != "test":
                return CodeFinding(value=True, file=call.file, line=call.line, confidence=SURE, because=name)
    return None


def _reads_resume_path(code: Code) -> CodeFinding[bool] | None:
    """Find `anygpu.resume_path()` or the environment variable of the same meaning."""
    for call in code.facts.calls_of("resume_path"):
        return CodeFinding(value=True, file=call.file, line=call.line, confidence=SURE, because="resume_path")
    for source in code.facts.sources:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Constant) and node.value == RESUME_VARIABLE:
                return CodeFinding(
                    value=True, file=source.name, line=node.lineno, confidence=SURE, because=RESUME_VARIABLE
                )
    return None


def _loads_state(code: Code) -> CodeFinding[bool] | None:
    """Find code that loads the state of the optimiser, or that loads a file in order to resume.

    Code that loads only weights does not resume a training but starts a new one (fine-tuning).
    """
    loads = [c for c in code.facts.calls_of("load_state_dict") if _SEES_TRAINING.search(c.base.lower())]
    if loads:
        return CodeFinding(
            value=True,
            file=loads[0].file,
            line=loads[0].line,
            confidence=SURE,
            because="loads the optimiser's state",
        )
    for call in code.facts.calls_of("load", "load_model", "load_weights", "load_state_dict"):
        if call.name.startswith(("json", "yaml", "np.", "numpy", "pickle")) and call.short_name == "load":
            continue
        words = " ".join(map(ast.unparse, [*call.context.branches, *call.node.args])).lower()
        if _RESUME_WORD.search(words):
            return CodeFinding(
                value=True,
                file=call.file,
                line=call.line,
                confidence=LIKELY,
                because="loads a file to resume",
            )
    return None


def _reads_progress(code: Code) -> CodeFinding[bool] | None:
    """Find code that reads the epoch or step from a loaded file.

    Example: `snapshot = torch.load(path); self.epochs_run = snapshot["EPOCHS_RUN"]`.
    """
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
                    return CodeFinding(
                        value=True, file=source.name, line=node.lineno, confidence=LIKELY, because=str(key)
                    )
    return None


def _resume_call(code: Code) -> CodeFinding[bool] | None:
    for call in code.facts.calls_of(*_RESUME_CALLS):
        node = call.argument("resume")
        if isinstance(node, ast.Constant) and node.value is False:
            continue
        if call.short_name == "resume_or_load" and node is None:
            continue
        if call.short_name == "restore" and not re.search(
            r"(?i)ckpt|check|manager|mngr|orbax|saver", call.name
        ):
            continue
        return CodeFinding(
            value=True, file=call.file, line=call.line, confidence=LIKELY, because=call.short_name
        )
    return None


def _framework_resume(code: Code) -> CodeFinding[bool] | None:
    call = code.facts.first_call("BackupAndRestore")
    if call is not None:
        return CodeFinding(
            value=True, file=call.file, line=call.line, confidence=SURE, because="BackupAndRestore"
        )
    for call in code.fit_calls:
        if call.has("initial_epoch"):
            return CodeFinding(
                value=True, file=call.file, line=call.line, confidence=LIKELY, because="initial_epoch"
            )
    setting = code.settings.command_line.get("resume_from_checkpoint") or code.settings.command_line.get(
        "resume"
    )
    if setting is not None and setting.value not in (False, None, ""):
        return CodeFinding(
            value=True, file=setting.file, line=setting.line, confidence=LIKELY, because=setting.because
        )
    return None


def _booster_resume(code: Code) -> CodeFinding[bool] | None:
    for call in code.facts.calls:
        if is_argument_true(code, call, "save_snapshot"):
            because = "resumes from its snapshot"
            return CodeFinding(value=True, file=call.file, line=call.line, confidence=SURE, because=because)
        if call.has("xgb_model", "init_model") or (
            code.imports("sklearn", "catboost") and call.has("warm_start_from")
        ):
            node = call.argument("xgb_model", "init_model")
            if not (isinstance(node, ast.Constant) and node.value is None):
                return CodeFinding(
                    value=True,
                    file=call.file,
                    line=call.line,
                    confidence=LIKELY,
                    because="continues training a saved model",
                )
    return None


_READERS = (
    _reads_resume_path,
    _trainer_resume,
    _loads_state,
    _reads_progress,
    _resume_call,
    _framework_resume,
    _booster_resume,
    _resume_option,
)
