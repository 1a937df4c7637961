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

from anygpu.events.facts import Offer
from anygpu.plan import gpus
from anygpu.plan.analyse.findings import VAGUE, Analysis
from anygpu.plan.analyse.workload import total_steps
from anygpu.plan.bill import Span
from anygpu.plan.question import Duration
from anygpu.plan.throughput import speedup, times_as_long
from anygpu.spec.model import JobSpec

BASIS = "history"
USUAL_SPREAD = 0.13  # of the logarithm, among runs of one workload on one kind of machine
USUAL_RUNS = 3  # what the usual spread weighs as much as
OTHER_GPU = 0.35  # more, where only another kind of GPU has been tried: data sheets tell no more
OTHER_COUNT = 0.10  # more, for each doubling of GPUs
OTHER_LENGTH = 0.20  # how far from 1 the power usually is by which time grows with steps
UNCOUNTED = 0.40  # more, where one of the two lengths is not known
NINE_IN_TEN = (6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86, 1.83, 1.81, 1.80, 1.78, 1.77, 1.76, 1.75)
MANY = 1.70  # the same of Student's t beyond that table

# What changes how long a training is, or what it learns, but not how long a step takes.
_LENGTH = re.compile(
    r"-{0,2}(\w*epochs?|\w*(steps|iters|iterations)|\w*seed|random[-_]state|lr\d?|learning[-_]rate|rounds)",
    re.I,
)
_COUNTED = re.compile(r"-{0,2}(\w*epochs?|\w*(?:steps|iters|iterations)|rounds)", re.I)
_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,6})?")
_ASIDE = ("epochs", "num_epochs", "seed", "random_state", "lr", "lr0", "learning_rate", "patience", "rounds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a run was on, as far as it matters for speed. Without a GPU, machines of one backend count as alike."""

    backend: str = ""
    gpu_kind: str = ""
    gpu_count: int = 0

    @classmethod
    def of(cls, offer: Offer) -> "Machine":
        return cls(backend=offer.backend, gpu_kind=offer.gpu_kind, gpu_count=offer.gpu_count)

    @property
    def kind(self) -> tuple[str, int]:
        return (self.gpu_kind or self.backend, self.gpu_count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """A run of the same workload that was completed without interruption."""

    machine: Machine
    training_s: float
    steps: int | None = None
    step_s: float | None = None
    length: str = ""  # what it asked for, as `length` says it


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """Training alone, uninterrupted. `runs`: how many it rests on; `says`: which, in words."""

    training_s: Span
    step_s: Span | None
    runs: int
    says: str
    basis: str = BASIS


@dataclass(frozen=True, slots=True)
class _Told:
    """One run's word on the question: the logarithm of seconds, and how far its translation may be off."""

    seconds: float
    doubt: float


def predict(
    machine: Machine, past: Sequence[Past], *, steps: int | None = None, length: str = ""
) -> Guess | None:
    """None when no past run can be compared. Runs on the same kind of machine count alone where there are any.

    How long it is to be: `steps` where they are known, else what the job asks for, as `length` says it.
    """
    usable = [run for run in past if run.training_s > 0]
    same = [run for run in usable if run.machine.kind == machine.kind]
    chosen = same or [run for run in usable if _slower(machine, run.machine) is not None]
    if not chosen:
        return None
    growth = _growth(chosen)
    told = [_told(machine, run, _ratio(run, steps, length), growth) for run in chosen]
    paced = [_paced(machine, run) for run in chosen if run.step_s]
    return Guess(
        training_s=_span(told),
        step_s=_span(paced) if paced else None,
        runs=len(chosen),
        says=_says(machine, chosen, same=bool(same)),
    )


@dataclass(frozen=True, slots=True)
class _Growth:
    """By which power of its steps the time of a run grows, and how far that may be off."""

    power: float
    doubt: float


def _growth(runs: Sequence[Past]) -> _Growth:
    """From runs of different lengths, pulled towards one: some parts do not grow with the steps, some grow faster."""
    known = [(log(run.steps), log(run.training_s)) for run in runs if run.steps]
    pull = (USUAL_SPREAD / OTHER_LENGTH) ** 2
    if not known:
        return _Growth(1.0, OTHER_LENGTH)
    x, y = fmean(each[0] for each in known), fmean(each[1] for each in known)
    across = sum((each[0] - x) ** 2 for each in known)
    along = sum((each[0] - x) * (each[1] - y) for each in known)
    return _Growth((along + pull) / (across + pull), USUAL_SPREAD / sqrt(across + pull))


def _told(machine: Machine, run: Past, longer: float | None, growth: _Growth) -> _Told:
    length, doubt = (0.0, UNCOUNTED) if longer is None else _longer(log(longer), growth)
    return _Told(
        log(run.training_s) + length + _factor(machine, run), sqrt(doubt**2 + _elsewhere(machine, run) ** 2)
    )


def _paced(machine: Machine, run: Past) -> _Told:
    return _Told(log(run.step_s or 1.0) + _factor(machine, run), _elsewhere(machine, run))


def _ratio(run: Past, steps: int | None, length: str) -> float | None:
    """How many times as long as that run it is to be; None where nothing tells."""
    if steps and run.steps:
        return steps / run.steps
    if length == run.length:
        return 1.0 if length or not steps else None
    (word, wanted), (other, had) = _counted(length), _counted(run.length)
    return wanted / had if word == other and wanted and had else None


def _counted(length: str) -> tuple[str, float]:
    word, _, number = length.partition(" ")
    return word, float(number or 0)


def _longer(ratio: float, growth: _Growth) -> tuple[float, float]:
    """What to add to the logarithm of its time, and the doubt of that."""
    return growth.power * ratio, growth.doubt * abs(ratio)


def _factor(machine: Machine, run: Past) -> float:
    return log(_slower(machine, run.machine) or 1.0)


def _elsewhere(machine: Machine, run: Past) -> float:
    if run.machine.kind == machine.kind:
        return 0.0
    doublings = abs(log(max(1, machine.gpu_count) / max(1, run.machine.gpu_count), 2))
    other = OTHER_GPU if run.machine.gpu_kind != machine.gpu_kind else 0.0
    return sqrt(other**2 + (OTHER_COUNT * doublings) ** 2)


def _slower(here: Machine, there: Machine) -> float | None:
    """How many times as long a training takes here as there; None where nothing tells."""
    if here.kind == there.kind:
        return 1.0
    ours = gpus.spec(here.gpu_kind) if here.gpu_kind else None
    theirs = gpus.spec(there.gpu_kind) if there.gpu_kind else None
    if ours is None or theirs is None:
        return None
    return times_as_long(ours, theirs) * speedup(max(1, there.gpu_count)) / speedup(max(1, here.gpu_count))


def _span(told: Sequence[_Told]) -> Span:
    """Of the next run: Student's t over the spread of the runs, pulled towards what is usual."""
    n, middle = len(told), fmean(each.seconds for each in told)
    around = sum((each.seconds - middle) ** 2 for each in told)
    degrees = USUAL_RUNS + n - 1
    spread = sqrt((USUAL_RUNS * USUAL_SPREAD**2 + around) / degrees)
    translated = fmean(each.doubt for each in told)
    half = sqrt((_quantile(degrees) * spread * sqrt(1 + 1 / n)) ** 2 + (MANY * translated) ** 2)
    return Span(expected=exp(middle), low=exp(middle - half), high=exp(middle + half))


def _quantile(degrees: int) -> float:
    return NINE_IN_TEN[degrees - 1] if degrees <= len(NINE_IN_TEN) else MANY


def _says(machine: Machine, chosen: Sequence[Past], *, same: bool) -> str:
    count = f"{len(chosen)} past run" + ("s" if len(chosen) > 1 else "")
    if same:
        return f"{count} of this workload on such a machine"
    return f"{count} of this workload on {_names(run.machine for run in chosen)}"


def _names(machines: Iterable[Machine]) -> str:
    return ", ".join(sorted({machine.gpu_kind or machine.backend for machine in machines}))


def remembered(spec: JobSpec, read: Analysis | None, past: Sequence[Past]) -> Duration | None:
    """What past runs say of the time on an offer, as the planner asks it; None where there were none."""
    if not past:
        return None
    steps = total_steps(read) if read is not None else None
    wanted = steps.value if steps is not None and steps.confidence > VAGUE else None
    asked, known = length(spec), dict[Machine, Span | None]()

    def duration(offer: Offer) -> Span | None:
        machine = Machine.of(offer)
        if machine not in known:
            guess = predict(machine, past, steps=wanted, length=asked)
            known[machine] = guess.training_s if guess is not None else None
        return known[machine]

    return duration


# -- which runs are runs of the same workload -----------------------------------------------------------------


def fingerprint(spec: JobSpec) -> str:
    """Equal for jobs whose steps take equally long: epochs, seeds and learning rates do not matter."""
    told = {
        "what": _what(spec),
        "where": _place(spec),
        "data": _data(spec),
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[:32]


def length(spec: JobSpec) -> str:
    """What the job asks for of epochs, steps or rounds, such as `epochs 3`; empty where it says nothing."""
    if spec.trainer is not None:
        said = [(name, str(value)) for name, value in spec.config.items()]
    else:
        words = spec.command.split() if isinstance(spec.command, str) else (*(spec.command or ()), *spec.args)
        pairs = pairwise([*words, ""])
        said = [(word, value) for word, value in pairs if word.startswith("-") and "=" not in word]
        said += [(name, value) for name, equals, value in (word.partition("=") for word in words) if equals]
    counted = [(name.strip("-").lower(), value) for name, value in said if _COUNTED.fullmatch(name)]
    numbers = sorted((name, value) for name, value in counted if _NUMBER.fullmatch(value))
    return next((f"{name} {value}" for name, value in numbers if float(value) > 0), "")


def _what(spec: JobSpec) -> list[object]:
    if spec.trainer is not None:
        config = {name: value for name, value in spec.config.items() if name not in _ASIDE}
        return ["trainer", spec.trainer, config]
    if spec.script is not None:
        return ["script", spec.script, _alike(spec.args)]
    if spec.command is not None:
        words = spec.command.split() if isinstance(spec.command, str) else spec.command
        return ["command", _alike(words)]
    return ["code", spec.code]


def _alike(words: Iterable[str]) -> list[str]:
    """The words without options for length, seed and learning rate, each with its value."""
    kept: list[str] = []
    value_follows = False
    for word in words:
        name, equals, _ = word.partition("=")
        aside = bool(_LENGTH.fullmatch(name)) and bool(equals or word.startswith("-"))
        if not aside and not (value_follows and not word.startswith("-")):
            kept.append(word)
        value_follows = aside and not equals
    return kept


def _place(spec: JobSpec) -> list[str]:
    """Two directories may each have a train.py."""
    workdir = spec.workdir
    return [] if workdir is None else [re.split(r"[/\\]", workdir.path or "")[-1], workdir.subdir]


def _data(spec: JobSpec) -> str:
    data = spec.dataset
    return "" if data is None else data.path or data.url or f"{data.name}@{data.version or ''}"
