"""What reading a training script yields: values with the line they stand on and how sure we are."""

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from anygpu.plan.effort import Effort

T = TypeVar("T")

SURE = 0.95  # written out, or given on the command line
LIKELY = 0.8  # a default that nothing overrides
GUESS = 0.5  # a framework's own default, or the name of a variable
VAGUE = 0.25  # nothing better is known
BLIND = 0.1  # nothing is known at all

Severity = Literal["costs", "risks", "hint"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(Generic[T]):
    """One value read from the code, where it stands, and how far it can be trusted (0 to 1)."""

    value: T
    file: str = ""
    line: int = 0
    confidence: float = SURE
    because: str = ""

    @property
    def sureness(self) -> str:
        return "high" if self.confidence >= 0.75 else "medium" if self.confidence >= 0.45 else "low"

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True, kw_only=True)
class Lint:
    """Something in the code that will cost money or lose work, and what to do about it."""

    code: str
    says: str
    do: str
    file: str = ""
    line: int = 0
    severity: Severity = "costs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why something could not be read as it should be."""

    file: str
    says: str
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """Everything that was read. A field that is None was not found; nothing here is ever executed."""

    frameworks: tuple[Found[str], ...] = ()
    model: Found[str] | None = None
    parameters: Found[int] | None = None
    batch_size: Found[int] | None = None
    accumulation: Found[int] | None = None
    epochs: Found[float] | None = None
    steps: Found[int] | None = None
    precision: Found[str] | None = None
    half_weights: Found[bool] | None = None  # the weights themselves are kept in 16 bits
    optimiser: Found[str] | None = None
    image_size: Found[int] | None = None
    sequence_length: Found[int] | None = None
    adapters: Found[str] | None = None  # lora, qlora: only small matrices are trained
    recomputes: Found[bool] | None = None  # gradient checkpointing
    workers: Found[int] | None = None
    dataset: Found[str] | None = None
    dataset_gb: Found[float] | None = None
    samples: Found[int] | None = None
    environment: Found[str] | None = None  # learns by acting in it
    multi_gpu: Found[str] | None = None
    gpus: Found[int] | None = None
    divided: Found[str] | None = None  # batch, accumulation: what its processes share out
    checkpointing: Found[bool] | None = None
    checkpoint_every: Found[str] | None = None
    checkpoint_paths: tuple[Found[str], ...] = ()
    resuming: Found[bool] | None = None
    needs_gpu: Found[bool] | None = None
    requirements: tuple[str, ...] = ()  # lines of the file the job installs from
    lints: tuple[Lint, ...] = ()
    problems: tuple[Problem, ...] = ()
    characteristics: "WorkloadCharacteristics | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadCharacteristics:
    """What a planner needs to know of the job, each with its evidence."""

    duration_hours: Found[float]  # on `gpus` of the reference
    duration_range_hours: tuple[float, float]
    gpu_memory_gb: Found[float]
    gpu_memory_range_gb: tuple[float, float]
    interruptible: Found[bool]
    needs_persistent_storage: Found[bool]
    dataset_size_gb: Found[float]
    checkpoint_frequency_steps: Found[int]  # 0: never
    estimated_cost_tolerance: Found[float]  # dollars
    gpus: int = 1
    effort: Effort | None = None  # None: not enough is known
