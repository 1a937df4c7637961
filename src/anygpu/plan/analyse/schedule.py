"""How long it runs: epochs and steps."""

import ast
import re
from dataclasses import replace

from anygpu.plan.analyse.code import MOST, Code, default, whole
from anygpu.plan.analyse.facts import Around, Call
from anygpu.plan.analyse.findings import GUESS, LIKELY, Found
from anygpu.plan.analyse.names import BOOSTERS, keyword, numeric
from anygpu.plan.analyse.settings import Value

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


def epochs(code: Code) -> Found[float] | None:
    """Passes over the data; none where the command line asks for steps and the epochs are only a default."""
    found = _epochs(code)
    asked = next((told for name in _ASKED_STEPS if (told := code.settings.given.get(name))), None)
    overruled = whole(asked) is not None and found is not None and found.file != "command line"
    return None if overruled else found


def _epochs(code: Code) -> Found[float] | None:
    for reader in (_hf_epochs, _lightning_epochs, _yolo_epochs, _fit_epochs, _loop_epochs, _named_epochs):
        found = reader(code)
        if found is not None:
            return found
    return None


def _hf_epochs(code: Code) -> Found[float] | None:
    if not code.uses_hf or _hf_steps(code) is not None:
        return None
    for call in code.hf:
        told = code.value(call, "num_train_epochs")
        found = _fraction(told)
        if found is not None:
            return found
    told = code.settings.told("num_train_epochs")
    made = code.hf[0] if code.hf else code.hf_parser
    because = "the default of TrainingArguments"
    return _fraction(told) or (default(made, 3.0, because) if made is not None else None)


def _fraction(told: Value | None) -> Found[float] | None:
    value = told.value if told is not None else None
    if told is None or isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MOST:
        return None
    return Found(
        value=float(value), file=told.file, line=told.line, confidence=told.confidence, because=told.because
    )


def _lightning_epochs(code: Code) -> Found[float] | None:
    for call in (c for c in code.lightning if c.last != "Fabric"):
        told = _fraction(code.value(call, "max_epochs")) or _from_arguments(code, call)
        if told is not None:
            return told
        if not call.has("max_steps", "max_epochs", "max_time") and not call.spreads:
            return default(call, 1000.0, "Lightning's default")
    return None


def _from_arguments(code: Code, call: Call) -> Found[float] | None:
    """Trainer.from_argparse_args and LightningCLI take what the command line or set_defaults say."""
    if call.last == "Trainer":
        return None
    told = code.settings.told("max_epochs")
    if told is None and call.has("trainer_defaults"):
        told = code.settings.named("max_epochs")
    return _fraction(told)


def _yolo_epochs(code: Code) -> Found[float] | None:
    for call in code.yolo:
        return _fraction(code.value(call, "epochs")) or default(call, 100.0, "ultralytics' default")
    return None


def _fit_epochs(code: Code) -> Found[float] | None:
    for call in code.facts.calls_of(*_FASTAI_FITS, "fit"):
        if call.last in _FASTAI_FITS or (code.has("fastai") and call.node.args):
            return _fraction(code.value(call, "n_epoch", "epochs", position=0))
    for call in code.fits:
        found = _fraction(code.value(call, "epochs", "nb_epoch", "n_epochs"))
        if found is not None:
            return replace(found, value=min(found.value * _rounds(code, call), MOST))
    keras = code.has("keras", "tensorflow") and not code.has("torch")
    if keras and code.fits and not _named_epochs(code) and not code.fits[0].spreads:
        return default(code.fits[0], 1.0, "the default of fit")
    return None


def _rounds(code: Code, call: Call) -> float:
    """fit(epochs=1) in a loop of 200 rounds is 200 epochs."""
    times = 1.0
    for loop in call.around.loops:
        told = _end(code, loop.iter) if isinstance(loop, ast.For) else None
        times *= told.value if told is not None and isinstance(told.value, int) and told.value > 0 else 1
    return times


def _loop_epochs(code: Code) -> Found[float] | None:
    for loop, around in code.facts.loops:
        if not isinstance(loop, ast.For) or _in_updates(around):
            continue
        name = ast.unparse(loop.target).lower()
        if re.search(r"epoch|(^|_)ep($|_)", name):
            found = _fraction(_end(code, loop.iter))
            if found is not None:
                return found
    return None


def _in_updates(around: Around) -> bool:
    """PPO goes over each rollout several times: those are no epochs of the training."""
    outer = [ast.unparse(loop.target).lower() for loop in around.loops if isinstance(loop, ast.For)]
    return any(re.search(r"step|iter|update|rollout|episode|^it$|^t$", name) for name in outer)


def _named_epochs(code: Code) -> Found[float] | None:
    if code.has(*BOOSTERS, "sklearn", "stable_baselines3") and not code.has(
        "torch", "tensorflow", "keras", "jax"
    ):
        return None
    found = _fraction(numeric(code, EPOCH_NAMES)) or _duration(code, "ep")
    return found or _keyword_fraction(code, EPOCH_NAMES)


def _duration(code: Code, unit: str) -> Found[float] | None:
    """Composer says "10ep" or "5000ba"."""
    told = code.settings.named("max_duration")
    match = re.fullmatch(r"(\d+)([a-z]+)", str(told.value)) if told else None
    if told is None or match is None or match[2] != unit:
        return None
    return Found(value=float(match[1]), file=told.file, line=told.line, confidence=told.confidence)


def _end(code: Code, node: ast.expr) -> Value | None:
    """The last argument of range, through tqdm and the like."""
    if not isinstance(node, ast.Call) or not node.args:
        return None
    last = ast.unparse(node.func).rpartition(".")[2]
    if last not in _WRAPPERS:
        return None
    if last in ("range", "xrange", "trange", "prange", "arange"):
        return _length(code, node.args)
    return _end(code, node.args[0])


def _length(code: Code, bounds: list[ast.expr]) -> Value | None:
    """How often range runs: range(1, 11) ten times; a first epoch that is not known counts as none."""
    end = code.settings.number(bounds[1 if len(bounds) > 1 else 0])
    start = code.settings.number(bounds[0]) if len(bounds) > 1 else None
    stride = code.settings.number(bounds[2]) if len(bounds) > 2 else None
    by = stride.value if stride is not None else 1 if len(bounds) < 3 else None
    if end is None or not isinstance(by, int) or not by:
        return None
    first = start.value if start is not None and isinstance(start.value, int) else 0
    return replace(end, value=-((first - end.value) // by)) if isinstance(end.value, int) else end


def steps(code: Code) -> Found[int] | None:
    for reader in (_hf_steps, _lightning_steps, _boosting_rounds, _loop_steps, _named_steps):
        found = reader(code)
        if found is not None:
            return None if _counts_epochs(code, found) else found
    return None


def _counts_epochs(code: Code, found: Found[int]) -> bool:
    """`--niter` that a loop over epochs runs to is no number of steps."""
    passes = _loop_epochs(code)
    same = passes is not None and (passes.file, passes.line, passes.value) == (
        found.file,
        found.line,
        found.value,
    )
    return same and found.line > 0


def _hf_steps(code: Code) -> Found[int] | None:
    for call in code.hf:
        found = whole(code.value(call, "max_steps"))
        if found is not None:
            return found
    return whole(code.settings.told("max_steps")) if code.uses_hf else None


def _lightning_steps(code: Code) -> Found[int] | None:
    found = (whole(code.value(call, "max_steps")) for call in code.lightning)
    return next((f for f in found if f is not None), None)


def _boosting_rounds(code: Code) -> Found[int] | None:
    if not code.has(*BOOSTERS) or code.has("torch", "tensorflow"):
        return None
    for call in code.facts.calls:
        trains = call.last in ("train", "cv") and call.name.startswith(BOOSTERS)
        if not trains and not re.match(r"(XGB|LGBM|CatBoost)", call.last):
            continue
        found = whole(code.value(call, *_ROUNDS))
        if found is None and call.last == "train":
            found = whole(code.value(call, position=2))
        if found is not None:
            return found
    return whole(code.settings.named(*_ROUNDS), confidence=GUESS)


def _loop_steps(code: Code) -> Found[int] | None:
    """A loop over steps that is not inside a loop over epochs."""
    for loop, around in code.facts.loops:
        if not isinstance(loop, ast.For) or around.loops or code.facts.depths.get(around.function):
            continue
        name = ast.unparse(loop.target).lower()
        if re.search(r"step|iter|^it$|^i$|^t$|batch|update", name) and _trains(loop):
            found = whole(_end(code, loop.iter), at_least=2)
            if found is not None:
                return found
    return None


def _trains(loop: ast.For) -> bool:
    """Whether the loop's own code steps an optimiser."""
    for node in ast.walk(loop):
        if isinstance(node, ast.Attribute) and node.attr in ("backward", "apply_gradients", "zero_grad"):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            name = ast.unparse(node.func).rpartition(".")[2]
            if re.fullmatch(r"(p_|jit_)?(train|update)(_step|_batch|_one_step)?", name):
                return True
    return False


def _named_steps(code: Code) -> Found[int] | None:
    names = _step_names(code)
    found = whole(numeric(code, names), at_least=2, confidence=LIKELY) or _composer_steps(code)
    return found or keyword(code, names)


def _step_names(code: Code) -> tuple[str, ...]:
    """scikit-learn's max_iter and n_iter are not training steps of a loop."""
    if code.has("sklearn") and not code.has("torch", "tensorflow", "jax"):
        return ()
    return STEP_NAMES


def _composer_steps(code: Code) -> Found[int] | None:
    found = _duration(code, "ba")
    return None if found is None else Found(value=int(found.value), file=found.file, line=found.line)


def _keyword_fraction(code: Code, names: tuple[str, ...]) -> Found[float] | None:
    found = keyword(code, names)
    if found is None:
        return None
    return Found(value=float(found.value), file=found.file, line=found.line, confidence=GUESS)
