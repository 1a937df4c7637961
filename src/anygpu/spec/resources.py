"""What the job needs of the machine."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from anygpu.spec import shorthand
from anygpu.spec.fields import Gibibytes, Matches, Part, Text, as_number


def _gpu(value: Any) -> Any:
    meant = shorthand.gpu(value)
    if isinstance(meant, str):
        raise ValueError("is not a GPU; write a kind, a count, or both: 'A100', 2, 'A100:8'")
    return meant


GpuKind = Annotated[
    Text,
    Matches(
        r"[A-Za-z0-9][A-Za-z0-9 ._-]*", 60, "is not a kind of GPU; write it as 'A100', 'H100' or 'RTX 4090'"
    ),
]


class Gpu(Part):
    """How many GPUs, of which kind, with at least how much memory each."""

    friendly = shorthand.FRIENDLY["resources.gpu"]

    count: Annotated[int, Field(ge=0, le=1024), BeforeValidator(as_number)] = 1
    kind: GpuKind | None = None
    memory_gib: Gibibytes | None = None


class Resources(Part):
    """What the machine must have at least; what is not said is decided by the plan."""

    friendly = shorthand.FRIENDLY["resources"]

    gpu: Annotated[Gpu, BeforeValidator(_gpu)] | None = None
    cpus: Annotated[float, Field(gt=0, le=4096), BeforeValidator(as_number)] | None = None
    memory_gib: Gibibytes | None = None
    disk_gib: Gibibytes | None = None
