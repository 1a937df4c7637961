"""What was asked: the job's spec and its parts, read from YAML, TOML, flags or Python, and checked.

Nothing is imported until it is used: the command line reads files and flags without loading the models.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anygpu.spec.jobspec import JobSpec as JobSpec
    from anygpu.spec.load import from_file as from_file
    from anygpu.spec.load import from_mapping as from_mapping
    from anygpu.spec.load import from_toml as from_toml
    from anygpu.spec.load import from_yaml as from_yaml
    from anygpu.spec.parts import Checkpoint as Checkpoint
    from anygpu.spec.parts import Dataset as Dataset
    from anygpu.spec.parts import Notify as Notify
    from anygpu.spec.parts import Track as Track
    from anygpu.spec.parts import Workdir as Workdir
    from anygpu.spec.placement import Limits as Limits
    from anygpu.spec.placement import Placement as Placement
    from anygpu.spec.resources import Gpu as Gpu
    from anygpu.spec.resources import Resources as Resources
    from anygpu.spec.schema import json_schema as json_schema

_HOMES = {
    "JobSpec": "jobspec",
    **dict.fromkeys(("from_file", "from_mapping", "from_toml", "from_yaml"), "load"),
    **dict.fromkeys(("Checkpoint", "Dataset", "Notify", "Track", "Workdir"), "parts"),
    **dict.fromkeys(("Limits", "Placement"), "placement"),
    **dict.fromkeys(("Gpu", "Resources"), "resources"),
    "json_schema": "schema",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_HOMES)
