"""How long will it take? From the organisation's own past runs of the same workload; pure arithmetic.

Times of runs differ by factors, so all of it is reckoned in logarithms. An interval is that of the next run, not of the
mean, and a few runs say little of how far runs spread: what is usual counts as much as a few runs more.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log, sqrt
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
PRIOR_SPREAD = 0.13  # of the logarithm, among runs of one workload on one kind of machine
PRIOR_RUNS = 3  # what the usual spread weighs as much as
OTHER_GPU_SPREAD = 0.35  # more, where only another kind of GPU has been tried: data sheets tell no more
DOUBLING_SPREAD = 0.10  # more, for each doubling of GPUs
LENGTH_POWER_SPREAD = 0.20  # how far from 1 the power usually is by which time grows with steps
UNKNOWN_LENGTH_SPREAD = 0.40  # more, where one of the two lengths is not known
T_QUANTILES = (6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86, 1.83, 1.81, 1.80, 1.78, 1.77, 1.76, 1.75)
T_LIMIT = 1.70  # the same of Student's t beyond that table

# What changes how long a training is, or what it learns, but not how long a step takes.
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
    """What a run was on, as far as it matters for speed. Without a GPU, machines of one backend count as alike."""

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
    """A run of the same workload that was completed without interruption."""

    machine: RunMachine
    training_s: float
    steps: int | None = None
    step_s: float | None = None
    length: str = ""  # what it asked for, as `length` says it


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEstimate:
    """Training alone, uninterrupted. `runs`: how many it rests on; `says`: which, in words."""

    training_s: Span
    step_s: Span | None
    runs: int
    explanation: str
    basis: str = HISTORY_BASIS


@dataclass(frozen=True, slots=True)
class _Observation:
    """One run's word on the question: the logarithm of seconds, and how far its translation may be off."""

    log_seconds: float
    spread: float


def predict_from_history(
    machine: RunMachine, past_runs: Sequence[PastRun], *, steps: int | None = None, length: str = ""
) -> HistoryEstimate | None:
    """None when no past run can be compared. Runs on the same kind of machine count alone where there are any.

    How long it is to be: `steps` where they are known, else what the job asks for, as `length` says it.
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
    """By which power of its steps the time of a run grows, and how far that may be off."""

    power: float
    spread: float


def _growth(runs: Sequence[PastRun]) -> _Growth:
    """From runs of different lengths, pulled towards one: some parts do not grow with the steps, some grow faster."""
    cache = [(log(run.steps), log(run.training_s)) for run in runs if run.steps]
    pull = (PRIOR_SPREAD / LENGTH_POWER_SPREAD) ** 2
    if not cache:
        return _Growth(1.0, LENGTH_POWER_SPREAD)
    x, y = fmean(each[0] for each in cache), fmean(each[1] for each in cache)
    across = sum((each[0] - x) ** 2 for each in cache)
    along = sum((each[0] - x) * (each[1] - y) for each in cache)
    return _Growth((along + pull) / (across + pull), PRIOR_SPREAD / sqrt(across + pull))


def _observe(machine: RunMachine, run: PastRun, longer: float | None, growth: _Growth) -> _Observation:
    length, doubt = (0.0, UNKNOWN_LENGTH_SPREAD) if longer is None else _log_growth(log(longer), growth)
    return _Observation(
        log(run.training_s) + length + _log_slowdown(machine, run),
        sqrt(doubt**2 + _machine_spread(machine, run) ** 2),
    )


def _observe_step(machine: RunMachine, run: PastRun) -> _Observation:
    return _Observation(log(run.step_s or 1.0) + _log_slowdown(machine, run), _machine_spread(machine, run))


def _length_ratio(run: PastRun, steps: int | None, length: str) -> float | None:
    """How many times as long as that run it is to be; None where nothing tells."""
    if steps and run.steps:
        return steps / run.steps
    if length == run.length:
        return 1.0 if length or not steps else None
    (word, wanted), (other, had) = _parse_length(length), _parse_length(run.length)
    return wanted / had if word == other and wanted and had else None


def _parse_length(length: str) -> tuple[str, float]:
    word, _, number = length.partition(" ")
    return word, float(number or 0)


def _log_growth(ratio: float, growth: _Growth) -> tuple[float, float]:
    """What to add to the logarithm of its time, and the doubt of that."""
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
    """How many times as long a training takes here as there; None where nothing tells."""
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
    """Of the next run: Student's t over the spread of the runs, pulled towards what is usual."""
    n, middle = len(observations), fmean(each.log_seconds for each in observations)
    squares = sum((each.log_seconds - middle) ** 2 for each in observations)
    degrees = PRIOR_RUNS + n - 1
    spread = sqrt((PRIOR_RUNS * PRIOR_SPREAD**2 + squares) / degrees)
    translated = fmean(each.spread for each in observations)
    half = sqrt((_quantile(degrees) * spread * sqrt(1 + 1 / n)) ** 2 + (T_LIMIT * translated) ** 2)
    return Span(expected=exp(middle), low=exp(middle - half), high=exp(middle + half))


def _quantile(degrees: int) -> float:
    return T_QUANTILES[degrees - 1] if degrees <= len(T_QUANTILES) else T_LIMIT


def _explain(machine: RunMachine, chosen: Sequence[PastRun], *, same: bool) -> str:
    count = f"{len(chosen)} past run" + ("s" if len(chosen) > 1 else "")
    if same:
        return f"{count} of this workload on such a machine"
    return f"{count} of this workload on {_machine_names(run.machine for run in chosen)}"


def _machine_names(machines: Iterable[RunMachine]) -> str:
    return ", ".join(sorted({machine.gpu_kind or machine.backend for machine in machines}))


def past_durations(
    spec: JobSpec, analysis: Analysis | None, past_runs: Sequence[PastRun]
) -> DurationLookup | None:
    """What past runs say of the time on an offer, as the planner asks it; None where there were none."""
    if not past_runs:
        return None
    steps = total_steps(analysis) if analysis is not None else None
    wanted = steps.value if steps is not None and steps.confidence > VAGUE else None
    asked, cache = training_length(spec), dict[RunMachine, Span | None]()

    def duration(offer: Offer) -> Span | None:
        machine = RunMachine.of(offer)
        if machine not in cache:
            guess = predict_from_history(machine, past_runs, steps=wanted, length=asked)
            cache[machine] = guess.training_s if guess is not None else None
        return cache[machine]

    return duration


# -- which runs are runs of the same workload -----------------------------------------------------------------


def fingerprint(spec: JobSpec) -> str:
    """Equal for jobs whose steps take equally long: epochs, seeds and learning rates do not matter."""
    observations = {
        "what": _workload_key(spec),
        "where": _directory_key(spec),
        "data": _dataset_key(spec),
    }
    return hashlib.sha256(json.dumps(observations, sort_keys=True, default=str).encode()).hexdigest()[:32]


def training_length(spec: JobSpec) -> str:
    """What the job asks for of epochs, steps or rounds, such as `epochs 3`; empty where it says nothing."""
    if spec.trainer is not None:
        settings = [(name, str(value)) for name, value in spec.config.items()]
    else:
        words = spec.command.split() if isinstance(spec.command, str) else (*(spec.command or ()), *spec.args)
        pairs = pairwise([*words, ""])
        settings = [(word, value) for word, value in pairs if word.startswith("-") and "=" not in word]
        settings += [
            (name, value) for name, equals, value in (word.partition("=") for word in words) if equals
        ]
    counted = [(name.strip("-").lower(), value) for name, value in settings if _COUNT_OPTIONS.fullmatch(name)]
    numbers = sorted((name, value) for name, value in counted if _NUMBER.fullmatch(value))
    return next((f"{name} {value}" for name, value in numbers if float(value) > 0), "")


def _workload_key(spec: JobSpec) -> list[object]:
    if spec.trainer is not None:
        config = {name: value for name, value in spec.config.items() if name not in _IGNORED_SETTINGS}
        return ["trainer", spec.trainer, config]
    if spec.script is not None:
        return ["script", spec.script, _without_length_options(spec.args)]
    if spec.command is not None:
        words = spec.command.split() if isinstance(spec.command, str) else spec.command
        return ["command", _without_length_options(words)]
    return ["code", spec.code]


def _without_length_options(words: Iterable[str]) -> list[str]:
    """The words without options for length, seed and learning rate, each with its value."""
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
    """Two directories may each have a train.py."""
    workdir = spec.workdir
    return [] if workdir is None else [re.split(r"[/\\]", workdir.path or "")[-1], workdir.subdir]


def _dataset_key(spec: JobSpec) -> str:
    data = spec.dataset
    return "" if data is None else data.path or data.url or f"{data.name}@{data.version or ''}"
