"""Results of an analysis: values found in the code with location and confidence, and a summary table."""

from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from anygpu.plan.predict.step_time import Effort, reference_gpu

T = TypeVar("T")

SURE = 0.95  # explicit in the code or on the command line
LIKELY = 0.8  # a default that nothing overrides
GUESS = 0.5  # a framework's own default, or the name of a variable
VAGUE = 0.25  # nothing better is known
BLIND = 0.1  # nothing is known at all

Severity = Literal["costs", "risks", "hint"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeFinding(Generic[T]):
    """A value that was found in the code, with its location, its confidence (0 to 1) and the reason for it."""

    value: T
    file: str = ""
    line: int = 0
    confidence: float = SURE
    because: str = ""

    @property
    def confidence_level(self) -> str:
        return "high" if self.confidence >= 0.75 else "medium" if self.confidence >= 0.45 else "low"

    @property
    def location(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeEdit:
    """A change of one line. `new` replaces the text `old` of the line, and may have several lines."""

    file: str
    line: int
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeFix:
    """Changes of the code that resolve a lint. All edits are applied together."""

    title: str
    edits: tuple[CodeEdit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lint:
    """A place in the code that wastes money or can lose work, with advice.

    `column` and `end_column` count characters from 0; both are 0 if only the line is known.
    """

    code: str
    message: str
    advice: str
    file: str = ""
    line: int = 0
    severity: Severity = "costs"
    column: int = 0
    end_column: int = 0
    fix: CodeFix | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadProblem:
    """The reason why a file could not be read or parsed completely."""

    file: str
    message: str
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """Everything that was found in the code, without running it. A field is None if it was not found."""

    frameworks: tuple[CodeFinding[str], ...] = ()
    model: CodeFinding[str] | None = None
    parameters: CodeFinding[int] | None = None
    batch_size: CodeFinding[int] | None = None
    accumulation: CodeFinding[int] | None = None
    epochs: CodeFinding[float] | None = None
    steps: CodeFinding[int] | None = None
    precision: CodeFinding[str] | None = None
    half_weights: CodeFinding[bool] | None = None  # the weights themselves are kept in 16 bits
    optimiser: CodeFinding[str] | None = None
    image_size: CodeFinding[int] | None = None
    sequence_length: CodeFinding[int] | None = None
    adapters: CodeFinding[str] | None = None  # lora, qlora: only small matrices are trained
    recomputes: CodeFinding[bool] | None = None  # gradient checkpointing
    workers: CodeFinding[int] | None = None
    dataset: CodeFinding[str] | None = None
    dataset_gb: CodeFinding[float] | None = None
    samples: CodeFinding[int] | None = None
    environment: CodeFinding[str] | None = None  # environment of reinforcement learning
    multi_gpu: CodeFinding[str] | None = None
    gpus: CodeFinding[int] | None = None
    # Batch or accumulation: what is divided between processes.
    split_across_gpus: CodeFinding[str] | None = None
    checkpointing: CodeFinding[bool] | None = None
    checkpoint_every: CodeFinding[str] | None = None
    checkpoint_paths: tuple[CodeFinding[str], ...] = ()
    resuming: CodeFinding[bool] | None = None
    needs_gpu: CodeFinding[bool] | None = None
    requirements: tuple[str, ...] = ()  # lines of the job's requirements file
    lints: tuple[Lint, ...] = ()
    problems: tuple[ReadProblem, ...] = ()
    characteristics: "WorkloadCharacteristics | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadCharacteristics:
    """Properties of a job that the planner needs, such as duration and GPU memory, each with the code that shows it."""

    duration_hours: CodeFinding[float]  # on `gpus` reference GPUs
    duration_range_hours: tuple[float, float]
    gpu_memory_gb: CodeFinding[float]
    gpu_memory_range_gb: tuple[float, float]
    interruptible: CodeFinding[bool]
    needs_persistent_storage: CodeFinding[bool]
    dataset_size_gb: CodeFinding[float]
    checkpoint_frequency_steps: CodeFinding[int]  # 0: never
    estimated_cost_tolerance: CodeFinding[float]  # dollars
    gpus: int = 1
    effort: Effort | None = None  # None: not enough is known


MAX_PROBLEMS = 3
_FIELDS = (
    ("model", "model"),
    ("parameters", "parameters"),
    ("batch size", "batch_size"),
    ("accumulation", "accumulation"),
    ("epochs", "epochs"),
    ("steps", "steps"),
    ("precision", "precision"),
    ("optimiser", "optimiser"),
    ("image size", "image_size"),
    ("sequence", "sequence_length"),
    ("adapters", "adapters"),
    ("loader workers", "workers"),
    ("data set", "dataset"),
    ("size of the data", "dataset_gb"),
    ("several GPUs", "multi_gpu"),
    ("GPUs", "gpus"),
    ("saves in training", "checkpointing"),
    ("saves every", "checkpoint_every"),
    ("can resume", "resuming"),
    ("needs a GPU", "needs_gpu"),
)


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """One row of the summary table."""

    what: str
    value: str
    sure: str
    where: str
    because: str = ""
    file: str = ""
    line: int = 0


def summary(read: Analysis) -> tuple[SummaryRow, ...]:
    """Return the summary table: files that could not be read, values found, and values derived from them."""
    rows = [_problem_row(problem) for problem in read.problems[:MAX_PROBLEMS]]
    rows += [
        SummaryRow(
            "frameworks",
            ", ".join(f.value for f in read.frameworks) or "none found",
            _framework_confidence(read),
            _framework_location(read),
            file=read.frameworks[0].file if read.frameworks else "",
            line=read.frameworks[0].line if read.frameworks else 0,
        )
    ]
    rows += [_row(what, finding) for what, name in _FIELDS if (finding := getattr(read, name)) is not None]
    return (*rows, *_derived_rows(read))


def _problem_row(problem: ReadProblem) -> SummaryRow:
    """Return a row for a file that could not be read. The row shows the beginning of the message."""
    location = f"{problem.file}:{problem.line}" if problem.line else problem.file
    what = problem.message.partition(" (")[0].partition(";")[0]
    return SummaryRow("not read", what, "-", location, problem.message, problem.file, problem.line)


def _framework_confidence(read: Analysis) -> str:
    return read.frameworks[0].confidence_level if read.frameworks else "low"


def _framework_location(read: Analysis) -> str:
    return read.frameworks[0].location if read.frameworks else ""


def _row(what: str, finding: CodeFinding[Any]) -> SummaryRow:
    value = _format_gb(finding.value) if what == "size of the data" else format_value(finding.value)
    return _located_row(what, value, finding)


def _located_row(what: str, value: str, finding: CodeFinding[Any]) -> SummaryRow:
    return SummaryRow(
        what,
        value,
        finding.confidence_level,
        finding.location,
        finding.because,
        finding.file,
        finding.line,
    )


def _derived_rows(read: Analysis) -> list[SummaryRow]:
    job = read.characteristics
    if job is None:
        return []
    low, high = job.duration_range_hours
    hours = _located_row(
        _time_label(job),
        f"{_format_hours(job.duration_hours.value)} ({_format_hours(low)} to {_format_hours(high)})",
        job.duration_hours,
    )
    rows = [
        hours,
        _row("interruptible", job.interruptible),
        _row("keeps files", job.needs_persistent_storage),
    ]
    if job.gpu_memory_gb.value:
        low, high = job.gpu_memory_range_gb
        value = f"{job.gpu_memory_gb.value:.1f} GB ({low:.1f} to {high:.1f})"
        rows.insert(1, _located_row("GPU memory", value, job.gpu_memory_gb))
    return rows


def _time_label(job: WorkloadCharacteristics) -> str:
    """Return the label of the row with the predicted time.

    It names the GPU if the time is for a certain GPU.
    """
    if job.effort is None:
        return "time"
    family = reference_gpu().family
    return f"time on {job.gpus} {family}s" if job.gpus > 1 else f"time on an {family}"


def _format_gb(gigabytes: float) -> str:
    return f"{gigabytes:.3g} GB" if gigabytes >= 1 else f"{gigabytes * 1000:.3g} MB"


def _format_hours(hours: float) -> str:
    """Format a duration, given in hours, in seconds, minutes, hours or days."""
    for unit, in_hours, until in (("s", 1 / 3600, 1 / 60), ("min", 1 / 60, 1.5), ("h", 1.0, 48.0)):
        if hours < until:
            return f"{hours / in_hours:.2g} {unit}"
    return f"{hours / 24:,.0f} days"


def format_value(value: object) -> str:
    """Format a value for people: 124.4M, 600,000, 3, yes."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and value >= 1_000_000:
        return f"{value / 1e9:.2f}B" if value >= 1e9 else f"{value / 1e6:.1f}M"
    if isinstance(value, int) and value >= 10_000:
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)
