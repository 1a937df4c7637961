"""The job spec: load it from YAML, TOML, flags or Python, validate it, and explain what is wrong.

Submodules are imported on first use, so that the command line can read files and flags without loading the
models.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anygpu.spec.jobspec import JobSpec as JobSpec
    from anygpu.spec.load import from_file as from_file
    from anygpu.spec.load import from_mapping as from_mapping
    from anygpu.spec.load import from_toml as from_toml
    from anygpu.spec.load import from_yaml as from_yaml
    from anygpu.spec.schema import json_schema as json_schema
    from anygpu.spec.sections import Checkpoint as Checkpoint
    from anygpu.spec.sections import Dataset as Dataset
    from anygpu.spec.sections import Gpu as Gpu
    from anygpu.spec.sections import Limits as Limits
    from anygpu.spec.sections import Notify as Notify
    from anygpu.spec.sections import Placement as Placement
    from anygpu.spec.sections import Resources as Resources
    from anygpu.spec.sections import Track as Track
    from anygpu.spec.sections import Workdir as Workdir

_SECTIONS = (
    "Checkpoint",
    "Dataset",
    "Gpu",
    "Limits",
    "Notify",
    "Placement",
    "Resources",
    "Track",
    "Workdir",
)
_MODULES = {
    "JobSpec": "jobspec",
    **dict.fromkeys(("from_file", "from_mapping", "from_toml", "from_yaml"), "load"),
    **dict.fromkeys(_SECTIONS, "sections"),
    "json_schema": "schema",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_MODULES)
