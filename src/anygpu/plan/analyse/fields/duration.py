"""Find the number of epochs and the number of steps."""

import ast
import re
from dataclasses import replace

from anygpu.plan.analyse.code.syntax import CallSite, CodeContext
from anygpu.plan.analyse.code.training_code import MAX_COUNT, Code, count_finding, framework_default
from anygpu.plan.analyse.code.values import Value
from anygpu.plan.analyse.fields.batches import BOOSTING_PACKAGES, keyword_number, named_number
from anygpu.plan.analyse.findings import GUESS, LIKELY, CodeFinding

EPOCH_NAMES = (
    "num_train_epochs",
    "epochs",
    "num_epochs",
    "n_epochs",
    "max_epochs",
    "max_epoch",
    "nb_epoch",
    "nb_epochs",
    "n_epoch",
    "num_epoch",
    "total_epochs",
    "train_epochs",
    "training_epochs",
    "epoch_num",
    "total_epoch",
)
STEP_NAMES = (
    "total_timesteps",
    "max_train_steps",
    "max_steps",
    "max_iters",
    "num_train_steps",
    "num_training_steps",
    "train_steps",
    "total_steps",
    "num_steps",
    "num_iterations",
    "train_iters",
    "training_steps",
    "max_iter",
    "n_iters",
    "num_iters",
    "total_iters",
    "iterations",
    "n_steps",
    "niter",
)
_ASKED_STEPS = ("max_train_steps", "max_steps")
_FASTAI_FITS = ("fit_one_cycle", "fine_tune", "fit_flat_cos")
_ROUNDS = ("num_boost_round", "n_estimators", "iterations", "num_iterations")
_WRAPPERS = (
    "tqdm",
    "trange",
    "enumerate",
    "track",
    "range",
    "xrange",
    "prange",
    "progress_bar",
    "master_bar",
    "arange",
)


def epochs(code: Code) -> CodeFinding[float] | None:
    """Return the number of epochs; None if it is unknown.

    Also return None if the command line sets a number of steps but no epochs, because the steps then count.
    """
    finding = _epochs(code)
    requested = next(
        (setting for name in _ASKED_STEPS if (setting := code.settings.command_line.get(name))), None
    )
    overruled = (
        count_finding(requested) is not None and finding is not None and finding.file != "command line"
    )
    return None if overruled else finding


def _epochs(code: Code) -> CodeFinding[float] | None:
    for reader in (_hf_epochs, _lightning_epochs, _yolo_epochs, _fit_epochs, _loop_epochs, _named_epochs):
        finding = reader(code)
        if finding is not None:
            return finding
    return None


def _hf_epochs(code: Code) -> CodeFinding[float] | None:
    if not code.uses_hf or _hf_steps(code) is not None:
        return None
    for call in code.hf_arguments:
        setting = code.argument_value(call, "num_train_epochs")
        finding = _positive_float(setting)
        if finding is not None:
            return finding
    setting = code.settings.configured("num_train_epochs")
    made = code.hf_arguments[0] if code.hf_arguments else code.hf_parser
    because = "the default of TrainingArguments"
    return _positive_float(setting) or (framework_default(made, 3.0, because) if made is not None else None)


def _positive_float(setting: Value | None) -> CodeFinding[float] | None:
    value = setting.value if setting is not None else None
    if (
        setting is None
        or isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 < value <= MAX_COUNT
    ):
        return None
    return CodeFinding(
        value=float(value),
        file=setting.file,
        line=setting.line,
        confidence=setting.confidence,
        because=setting.because,
    )


def _lightning_epochs(code: Code) -> CodeFinding[float] | None:
    for call in (c for c in code.lightning_trainers if c.short_name != "Fabric"):
        setting = _positive_float(code.argument_value(call, "max_epochs")) or _from_arguments(code, call)
        if setting is not None:
            return setting
        if not call.has("max_steps", "max_epochs", "max_time") and not call.spreads:
            return framework_default(call, 1000.0, "Lightning's default")
    return None


def _from_arguments(code: Code, call: CallSite) -> CodeFinding[float] | None:
    """Return the number of epochs for `Trainer.from_argparse_args` or LightningCLI.

    It is set on the command line, in a configuration file or by defaults in the code.
    """
    if call.short_name == "Trainer":
        return None
    setting = code.settings.configured("max_epochs")
    if setting is None and call.has("trainer_defaults"):
        setting = code.settings.find("max_epochs")
    return _positive_float(setting)


def _yolo_epochs(code: Code) -> CodeFinding[float] | None:
    for call in code.yolo_trainings:
        return _positive_float(code.argument_value(call, "epochs")) or framework_default(
            call, 100.0, "ultralytics' default"
        )
    return None


def _fit_epochs(code: Code) -> CodeFinding[float] | None:
    for call in code.facts.calls_of(*_FASTAI_FITS, "fit"):
        if call.short_name in _FASTAI_FITS or (code.imports("fastai") and call.node.args):
            return _positive_float(code.argument_value(call, "n_epoch", "epochs", position=0))
    for call in code.fit_calls:
        finding = _positive_float(code.argument_value(call, "epochs", "nb_epoch", "n_epochs"))
        if finding is not None:
            return replace(finding, value=min(finding.value * _outer_rounds(code, call), MAX_COUNT))
    keras = code.imports("keras", "tensorflow") and not code.imports("torch")
    if keras and code.fit_calls and not _named_epochs(code) and not code.fit_calls[0].spreads:
        return framework_default(code.fit_calls[0], 1.0, "the default of fit")
    return None


def _outer_rounds(code: Code, call: CallSite) -> float:
    """Return how often a call is repeated, because of the loops around it.

    For example, `fit(epochs=1)` in a loop over `range(200)` trains for 200 epochs.
    """
    times = 1.0
    for loop in call.context.loops:
        setting = _loop_count(code, loop.iter) if isinstance(loop, ast.For) else None
        times *= (
            setting.value
            if setting is not None and isinstance(setting.value, int) and setting.value > 0
            else 1
        )
    return times


def _loop_epochs(code: Code) -> CodeFinding[float] | None:
    for loop, context in code.facts.loops:
        if not isinstance(loop, ast.For) or _in_updates(context):
            continue
        name = ast.unparse(loop.target).lower()
        if re.search(r"epoch|(^|_)ep($|_)", name):
            finding = _positive_float(_loop_count(code, loop.iter))
            if finding is not None:
                return finding
    return None


def _in_updates(context: CodeContext) -> bool:
    """Return whether a loop is inside a loop over steps, updates or episodes.

    In reinforcement learning such as PPO, an inner loop over "epochs" reuses the data of one update. It does
    not count the epochs of the training.
    """
    outer = [ast.unparse(loop.target).lower() for loop in context.loops if isinstance(loop, ast.For)]
    return any(re.search(r"step|iter|update|rollout|episode|^it$|^t$", name) for name in outer)


def _named_epochs(code: Code) -> CodeFinding[float] | None:
    if code.imports(*BOOSTING_PACKAGES, "sklearn", "stable_baselines3") and not code.imports(
        "torch", "tensorflow", "keras", "jax"
    ):
        return None
    finding = _positive_float(named_number(code, EPOCH_NAMES)) or _composer_duration(code, "ep")
    return finding or _keyword_fraction(code, EPOCH_NAMES)


def _composer_duration(code: Code, unit: str) -> CodeFinding[float] | None:
    """Return the number in Composer's `max_duration`, such as 10 for "10ep"; None for another unit."""
    setting = code.settings.find("max_duration")
    match = re.fullmatch(r"(\d+)([a-z]+)", str(setting.value)) if setting else None
    if setting is None or match is None or match[2] != unit:
        return None
    return CodeFinding(
        value=float(match[1]), file=setting.file, line=setting.line, confidence=setting.confidence
    )


def _loop_count(code: Code, node: ast.expr) -> Value | None:
    """Return the number of iterations of a loop over `range(...)`; None if unknown.

    The range may be wrapped, as in `tqdm(range(10))`.
    """
    if not isinstance(node, ast.Call) or not node.args:
        return None
    last = ast.unparse(node.func).rpartition(".")[2]
    if last not in _WRAPPERS:
        return None
    if last in ("range", "xrange", "trange", "prange", "arange"):
        return _range_length(code, node.args)
    return _loop_count(code, node.args[0])


def _range_length(code: Code, bounds: list[ast.expr]) -> Value | None:
    """Return the length of a range, such as 10 for `range(1, 11)`. An unknown start counts as 0."""
    end = code.settings.evaluate_number(bounds[1 if len(bounds) > 1 else 0])
    start = code.settings.evaluate_number(bounds[0]) if len(bounds) > 1 else None
    stride = code.settings.evaluate_number(bounds[2]) if len(bounds) > 2 else None
    by = stride.value if stride is not None else 1 if len(bounds) < 3 else None
    if end is None or not isinstance(by, int) or not by:
        return None
    first = start.value if start is not None and isinstance(start.value, int) else 0
    return replace(end, value=-((first - end.value) // by)) if isinstance(end.value, int) else end


def steps(code: Code) -> CodeFinding[int] | None:
    for reader in (_hf_steps, _lightning_steps, _boosting_rounds, _loop_steps, _named_steps):
        finding = reader(code)
        if finding is not None:
            return None if _counts_epochs(code, finding) else finding
    return None


def _counts_epochs(code: Code, finding: CodeFinding[int]) -> bool:
    """Return whether a setting for steps, such as `--niter`, is really the number of epochs of a loop."""
    passes = _loop_epochs(code)
    same = passes is not None and (passes.file, passes.line, passes.value) == (
        finding.file,
        finding.line,
        finding.value,
    )
    return same and finding.line > 0


def _hf_steps(code: Code) -> CodeFinding[int] | None:
    for call in code.hf_arguments:
        finding = count_finding(code.argument_value(call, "max_steps"))
        if finding is not None:
            return finding
    return count_finding(code.settings.configured("max_steps")) if code.uses_hf else None


def _lightning_steps(code: Code) -> CodeFinding[int] | None:
    finding = (count_finding(code.argument_value(call, "max_steps")) for call in code.lightning_trainers)
    return next((f for f in finding if f is not None), None)


def _boosting_rounds(code: Code) -> CodeFinding[int] | None:
    if not code.imports(*BOOSTING_PACKAGES) or code.imports("torch", "tensorflow"):
        return None
    for call in code.facts.calls:
        trains = call.short_name in ("train", "cv") and call.name.startswith(BOOSTING_PACKAGES)
        if not trains and not re.match(r"(XGB|LGBM|CatBoost)", call.short_name):
            continue
        finding = count_finding(code.argument_value(call, *_ROUNDS))
        if finding is None and call.short_name == "train":
            finding = count_finding(code.argument_value(call, position=2))
        if finding is not None:
            return finding
    return count_finding(code.settings.find(*_ROUNDS), confidence=GUESS)


def _loop_steps(code: Code) -> CodeFinding[int] | None:
    """Return the number of iterations of a training loop over steps that is not inside another loop."""
    for loop, context in code.facts.loops:
        if not isinstance(loop, ast.For) or context.loops or code.facts.function_depths.get(context.function):
            continue
        name = ast.unparse(loop.target).lower()
        if re.search(r"step|iter|^it$|^i$|^t$|batch|update", name) and _steps_optimiser(loop):
            finding = count_finding(_loop_count(code, loop.iter), at_least=2)
            if finding is not None:
                return finding
    return None


def _steps_optimiser(loop: ast.For) -> bool:
    """Return whether a loop trains the model: it computes gradients, or calls a function such as `train_step`."""
    for node in ast.walk(loop):
        if isinstance(node, ast.Attribute) and node.attr in ("backward", "apply_gradients", "zero_grad"):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            name = ast.unparse(node.func).rpartition(".")[2]
            if re.fullmatch(r"(p_|jit_)?(train|update)(_step|_batch|_one_step)?", name):
                return True
    return False


def _named_steps(code: Code) -> CodeFinding[int] | None:
    names = _step_names(code)
    finding = count_finding(named_number(code, names), at_least=2, confidence=LIKELY) or _composer_steps(code)
    return finding or keyword_number(code, names)


def _step_names(code: Code) -> tuple[str, ...]:
    """Return the names of settings that give the number of steps.

    There are none for scikit-learn, where `max_iter` is not a number of training steps.
    """
    if code.imports("sklearn") and not code.imports("torch", "tensorflow", "jax"):
        return ()
    return STEP_NAMES


def _composer_steps(code: Code) -> CodeFinding[int] | None:
    finding = _composer_duration(code, "ba")
    return (
        None
        if finding is None
        else CodeFinding(value=int(finding.value), file=finding.file, line=finding.line)
    )


def _keyword_fraction(code: Code, names: tuple[str, ...]) -> CodeFinding[float] | None:
    finding = keyword_number(code, names)
    if finding is None:
        return None
    return CodeFinding(value=float(finding.value), file=finding.file, line=finding.line, confidence=GUESS)
