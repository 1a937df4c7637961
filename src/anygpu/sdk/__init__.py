"""The Python client: submit, watch and fetch jobs from any anygpu server.

    from anygpu.sdk import Platform, Requirements

Modules are imported when first used, so that the command line starts quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anygpu.sdk.client import Client as Client
    from anygpu.sdk.context import Context as Context
    from anygpu.sdk.job import Job as Job
    from anygpu.sdk.job import JobFailed as JobFailed
    from anygpu.sdk.job import NotFinished as NotFinished
    from anygpu.sdk.ml_platform import MLPlatform as MLPlatform
    from anygpu.sdk.platform import Platform as Platform
    from anygpu.sdk.status import Status as Status
    from anygpu.sdk.upload.requirements import Requirements as Requirements

_HOMES = {
    "Client": "client",
    "Context": "context",
    "Job": "job",
    "JobFailed": "job",
    "MLPlatform": "ml_platform",
    "NotFinished": "job",
    "Platform": "platform",
    "Requirements": "upload.requirements",
    "Status": "status",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_HOMES)
