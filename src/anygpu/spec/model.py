"""The models of a job spec, in one place to import from."""

from anygpu.spec.jobspec import JobSpec
from anygpu.spec.parts import Checkpoint, Dataset, Workdir
from anygpu.spec.placement import Limits, Placement
from anygpu.spec.resources import Gpu, Resources

__all__ = ["Checkpoint", "Dataset", "Gpu", "JobSpec", "Limits", "Placement", "Resources", "Workdir"]
