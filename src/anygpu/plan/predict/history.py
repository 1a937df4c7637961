"""Predict the training time of a job from past runs of the same workload. Pure functions.

The times of runs differ by factors, so the calculations use logarithms. The predicted interval is where the
time of the next run is expected, which is wider than the interval for the mean. A few runs say little about
how much their times vary, so a typical variation (prior spread) is added with the weight of a few runs.
"""

import hashlib
import json
import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log, sqrt
from pathlib import PurePosixPath
from statistics import fmean

from anygpu.events.offers import Offer
from anygpu.plan.analyse.findings import VAGUE, Analysis
from anygpu.plan.analyse.workload import total_steps
from anygpu.plan.hardware import gpus
from anygpu.plan.offers.bill import Span
from anygpu.plan.offers.estimate import DurationLookup
from anygpu.plan.predict.step_time import gpu_slowdown, multi_gpu_speedup
from anygpu.spec.jobspec import JobSpec

HISTORY_BASIS = "history"
# Spreads are standard deviations of the logarithm of the time.
PRIOR_SPREAD = 0.13  # among runs of one workload on one kind of machine
PRIOR_RUNS = 3  # how many runs the prior spread counts for
OTHER_GPU_SPREAD = 0.35  # added when only another kind of GPU was used
DOUBLING_SPREAD = 0.10  # added for each doubling of the GPU count
LENGTH_POWER_SPREAD = 0.20  # of the power by which time grows with steps
UNKNOWN_SPEED_SPREAD = 1.0  # of a machine that no past run can be compared with
UNKNOWN_LENGTH_SPREAD = 0.40  # added when one of the two lengths is not known
# 95 % quantiles of Student's t for 1, 2, ... degrees of freedom, and for more than the table has.
T_QUANTILES = (6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86, 1.83, 1.81, 1.80, 1.78, 1.77, 1.76, 1.75)
T_LIMIT = 1.70

# Options that change the length or the result of a training, but not the time of a step.
_LENGTH_OPTIONS = re.compile(
    r"-{0,2}(\w*epochs?|\w*(steps|iters|iterations)|\w*seed|random[-_]state|lr\d?|learning[-_]rate|rounds)",
    re.I,
)
_COUNT_OPTIONS = re.compile(r"-{0,2}(\w*epochs?|\w*(?:steps|iters|iterations)|rounds)", re.I)
_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,6})?")
_IGNORED_SETTINGS = (
    "epochs",
    "num_epochs",
    "seed",
    "random_state",
    "lr",
    "lr0",
    "learning_rate",
    "patience",
    "rounds",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMachine:
    """The properties of a machine that determine the speed of a run.

    CPU-only machines of the same backend are treated as equally fast.
    """

    backend: str = ""
    gpu_kind: str = ""
    gpu_count: int = 0

    @classmethod
    def of(cls, offer: Offer) -> "RunMachine":
        return cls(backend=offer.backend, gpu_kind=offer.gpu_kind, gpu_count=offer.gpu_count)

    @property
    def kind(self) -> tuple[str, int]:
        return (self.gpu_kind or self.backend, self.gpu_count)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """A completed run of the same workload without interruptions."""

    machine: RunMachine
    training_s: float
    steps: int | None = None
    step_s: float | None = None
    length: str = ""  # see `training_length`


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEstimate:
    """The training time without interruptions, predicted from `runs` past runs."""

    training_s: Span
    step_s: Span | None
    runs: int
    explanation: str
    basis: str = HISTORY_BASIS


@dataclass(frozen=True, slots=True)
class _Observation:
    """The time of one past run, converted to the requested machine and length.

    `spread` is the uncertainty of the conversion, as a standard deviation of the logarithm.
    """

    log_seconds: float
    spread: float


def predict_from_history(
    machine: RunMachine, past_runs: Sequence[PastRun], *, steps: int | None = None, length: str = ""
) -> HistoryEstimate | None:
    """Predict the training time from past runs; return None if no run is comparable.

    Runs on the same kind of machine are used if there are any, else runs on machines whose relative speed is
    known. Longer or shorter runs are converted by `steps` if known, else by `length` (see `training_length`).
    """
    usable = [run for run in past_runs if run.training_s > 0]
    same = [run for run in usable if run.machine.kind == machine.kind]
    chosen = same or [run for run in usable if _slowdown(machine, run.machine) is not None]
    if not chosen:
        return None
    growth = _growth(chosen)
    observations = [_observe(machine, run, _length_ratio(run, steps, length), growth) for run in chosen]
    step_observations = [_observe_step(machine, run) for run in chosen if run.step_s]
    return HistoryEstimate(
        training_s=_span(observations),
        step_s=_span(step_observations) if step_observations else None,
        runs=len(chosen),
        explanation=_explain(machine, chosen, same=bool(same)),
    )


@dataclass(frozen=True, slots=True)
class _Growth:
    """How the time grows with the number of steps: p in "time is proportional to steps^p", with its standard error."""

    power: float
    spread: float


def _growth(runs: Sequence[PastRun]) -> _Growth:
    """Estimate how the time grows with the number of steps, by regression over runs of different lengths."""
    points = [(log(run.steps), log(run.training_s)) for run in runs if run.steps]
    prior = (PRIOR_SPREAD / LENGTH_POWER_SPREAD) ** 2
    if not points:
        return _Growth(1.0, LENGTH_POWER_SPREAD)
    x, y = fmean(each[0] for each in points), fmean(each[1] for each in points)
    variance = sum((each[0] - x) ** 2 for each in points)
    covariance = sum((each[0] - x) * (each[1] - y) for each in points)
    return _Growth((covariance + prior) / (variance + prior), PRIOR_SPREAD / sqrt(variance + prior))


def _observe(machine: RunMachine, run: PastRun, ratio: float | None, growth: _Growth) -> _Observation:
    length, spread = (0.0, UNKNOWN_LENGTH_SPREAD) if ratio is None else _log_growth(log(ratio), growth)
    return _Observation(
        log(run.training_s) + length + _log_slowdown(machine, run),
        sqrt(spread**2 + _machine_spread(machine, run) ** 2),
    )


def _observe_step(machine: RunMachine, run: PastRun) -> _Observation:
    return _Observation(log(run.step_s or 1.0) + _log_slowdown(machine, run), _machine_spread(machine, run))


def _length_ratio(run: PastRun, steps: int | None, length: str) -> float | None:
    """Return how many times longer the job is than a past run, in steps or epochs; None if unknown."""
    if steps and run.steps:
        return steps / run.steps
    if length == run.length:
        return 1.0 if length or not steps else None
    (unit, count), (past_unit, past_count) = _parse_length(length), _parse_length(run.length)
    return count / past_count if unit == past_unit and count and past_count else None


def _parse_length(length: str) -> tuple[str, float]:
    unit, _, number = length.partition(" ")
    return unit, float(number or 0)


def _log_growth(ratio: float, growth: _Growth) -> tuple[float, float]:
    """Return by how much the logarithm of the time changes, and the uncertainty of this change.

    `ratio` is the logarithm of the `_length_ratio`.
    """
    return growth.power * ratio, growth.spread * abs(ratio)


def _log_slowdown(machine: RunMachine, run: PastRun) -> float:
    return log(_slowdown(machine, run.machine) or 1.0)


def _machine_spread(machine: RunMachine, run: PastRun) -> float:
    if run.machine.kind == machine.kind:
        return 0.0
    doublings = abs(log(max(1, machine.gpu_count) / max(1, run.machine.gpu_count), 2))
    other = OTHER_GPU_SPREAD if run.machine.gpu_kind != machine.gpu_kind else 0.0
    return sqrt(other**2 + (DOUBLING_SPREAD * doublings) ** 2)


def _slowdown(here: RunMachine, there: RunMachine) -> float | None:
    """Return how many times longer training takes on machine `here` than on machine `there`; None if unknown."""
    if here.kind == there.kind:
        return 1.0
    ours = gpus.spec(here.gpu_kind) if here.gpu_kind else None
    theirs = gpus.spec(there.gpu_kind) if there.gpu_kind else None
    if ours is None or theirs is None:
        return None
    return (
        gpu_slowdown(ours, theirs)
        * multi_gpu_speedup(max(1, there.gpu_count))
        / multi_gpu_speedup(max(1, here.gpu_count))
    )


def _span(observations: Sequence[_Observation]) -> Span:
    """Return the expected time of the next run and its 90 % interval, by Student's t distribution."""
    n, mean = len(observations), fmean(each.log_seconds for each in observations)
    squares = sum((each.log_seconds - mean) ** 2 for each in observations)
    degrees = PRIOR_RUNS + n - 1
    spread = sqrt((PRIOR_RUNS * PRIOR_SPREAD**2 + squares) / degrees)
    conversion = fmean(each.spread for each in observations)
    half = sqrt((_quantile(degrees) * spread * sqrt(1 + 1 / n)) ** 2 + (T_LIMIT * conversion) ** 2)
    return Span(expected=exp(mean), low=exp(mean - half), high=exp(mean + half))


def _quantile(degrees: int) -> float:
    return T_QUANTILES[degrees - 1] if degrees <= len(T_QUANTILES) else T_LIMIT


def _explain(machine: RunMachine, chosen: Sequence[PastRun], *, same: bool) -> str:
    count = f"{len(chosen)} past run" + ("s" if len(chosen) > 1 else "")
    if same:
        return f"{count} of this workload on this kind of machine"
    return f"{count} of this workload on {_machine_names(run.machine for run in chosen)}"


def _machine_names(machines: Iterable[RunMachine]) -> str:
    return ", ".join(sorted({machine.gpu_kind or machine.backend for machine in machines}))


def past_durations(
    spec: JobSpec, analysis: Analysis | None, past_runs: Sequence[PastRun]
) -> DurationLookup | None:
    """Return a function that predicts the training time on an offer; None if there are no past runs."""
    if not past_runs:
        return None
    found_steps = total_steps(analysis) if analysis is not None else None
    steps = found_steps.value if found_steps is not None and found_steps.confidence > VAGUE else None
    length, cache = training_length(spec), dict[RunMachine, Span | None]()

    def duration(offer: Offer) -> Span | None:
        machine = RunMachine.of(offer)
        if machine not in cache:
            estimate = predict_from_history(machine, past_runs, steps=steps, length=length)
            cache[machine] = estimate.training_s if estimate is not None else None
        return cache[machine]

    return duration


def rough_duration(spec: JobSpec, past_runs: Sequence[PastRun]) -> Span | None:
    """Return the training time on a machine whose speed cannot be compared with those of the past runs.

    Return None if there are no past runs.
    """
    usable = [run for run in past_runs if run.training_s > 0]
    if not usable:
        return None
    growth, length = _growth(usable), training_length(spec)
    observations = []
    for run in usable:
        ratio = _length_ratio(run, None, length)
        change, spread = (0.0, UNKNOWN_LENGTH_SPREAD) if ratio is None else _log_growth(log(ratio), growth)
        observations.append(
            _Observation(log(run.training_s) + change, sqrt(spread**2 + UNKNOWN_SPEED_SPREAD**2))
        )
    return _span(observations)


def fingerprint(spec: JobSpec) -> str:
    """Return a hash that is equal for jobs whose steps take equally long.

    Settings that do not change the time of a step are ignored, such as epochs, seed and learning rate.
    """
    key = {
        "what": _workload_key(spec),
        "where": _directory_key(spec),
        "data": _dataset_key(spec),
        # Nodes share the work of a step, so only runs on as many nodes are comparable.
        **({"nodes": spec.resources.nodes} if spec.resources.nodes > 1 else {}),
    }
    return hashlib.sha256(json.dumps(key, sort_keys=True, default=str).encode()).hexdigest()[:32]


def training_length(spec: JobSpec) -> str:
    """Return the epochs, steps or rounds that the job sets, such as `epochs 3`; empty if it sets none."""
    if spec.trainer is not None:
        settings = [(name, str(value)) for name, value in spec.config.items()]
    else:
        words = spec.command.split() if isinstance(spec.command, str) else (*(spec.command or ()), *spec.args)
        pairs = pairwise([*words, ""])
        settings = [(word, value) for word, value in pairs if word.startswith("-") and "=" not in word]
        settings += [
            (name, value) for name, equals, value in (word.partition("=") for word in words) if equals
        ]
    counts = [(name.strip("-").lower(), value) for name, value in settings if _COUNT_OPTIONS.fullmatch(name)]
    numbers = sorted((name, value) for name, value in counts if _NUMBER.fullmatch(value))
    return next((f"{name} {value}" for name, value in numbers if float(value) > 0), "")


def _workload_key(spec: JobSpec) -> list[object]:
    if spec.trainer is not None:
        config = {name: value for name, value in spec.config.items() if name not in _IGNORED_SETTINGS}
        return ["trainer", spec.trainer, config]
    if spec.script is not None:
        return ["script", _last_part(spec.script), _without_length_options(spec.args)]
    if spec.command is not None:
        words = spec.command.split() if isinstance(spec.command, str) else spec.command
        return ["command", _without_length_options(words)]
    return ["code", spec.code]


def _without_length_options(words: Iterable[str]) -> list[str]:
    """Return the words without the options for epochs, steps, seed and learning rate and their values."""
    kept: list[str] = []
    value_follows = False
    for word in words:
        name, equals, _ = word.partition("=")
        ignored = bool(_LENGTH_OPTIONS.fullmatch(name)) and bool(equals or word.startswith("-"))
        if not ignored and not (value_follows and not word.startswith("-")):
            kept.append(word)
        value_follows = ignored and not equals
    return kept


def _directory_key(spec: JobSpec) -> list[str]:
    """Return the name of the directory in which the job runs, or of the script's directory if it has a script.

    The name distinguishes scripts with equal names. A script has the same key from whatever directory it is
    started. Files from a browser have no directory: their content distinguishes them.
    """
    workdir = spec.workdir
    if workdir is None:
        return []
    if workdir.path is None and (workdir.snapshot or workdir.has_copy):
        return ["files", workdir.manifest or workdir.archive or ""]
    path = f"{workdir.path or ''}/{workdir.subdir}"
    if spec.script is not None:
        path = posixpath.join(path, spec.script, "..")  # an absolute script replaces the directory
    return [_last_part(path)]


def _last_part(path: str) -> str:
    return PurePosixPath(posixpath.normpath(path.replace("\\", "/"))).name


def _dataset_key(spec: JobSpec) -> str:
    data = spec.dataset
    return "" if data is None else data.path or data.url or f"{data.name}@{data.version or ''}"
