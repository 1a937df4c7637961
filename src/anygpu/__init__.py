"""anygpu: train on any GPU.

Training scripts import this package for `anygpu.log(...)`, on Python 3.9 or later and without any dependency. Importing
it takes almost no time: everything else is loaded when it is first used.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from anygpu.job import artifact as artifact
    from anygpu.job import best as best
    from anygpu.job import checkpoint as checkpoint
    from anygpu.job import log as log
    from anygpu.job import progress as progress
    from anygpu.job import resume_path as resume_path
    from anygpu.job import save as save
    from anygpu.job import should_stop as should_stop
    from anygpu.sdk import MLPlatform as MLPlatform
    from anygpu.sdk import Platform as Platform
    from anygpu.sdk import Requirements as Requirements

__version__ = "0.1.0"

_JOB_NAMES = ("log", "progress", "checkpoint", "resume_path", "should_stop", "artifact", "best", "save")
_CLIENT_NAMES = ("MLPlatform", "Platform", "Requirements")

__all__ = [*_JOB_NAMES, *_CLIENT_NAMES, "__version__"]


def _other_directories(name: str) -> list[str]:
    """Return the other directories of this package on sys.path, like pkgutil.extend_path without its 4 ms import.

    In a job the small `anygpu` of the agent comes first; an installed package adds the client.
    """
    directories = [os.path.join(entry or os.getcwd(), name) for entry in sys.path]  # noqa: PTH109, PTH118
    return [path for path in directories if os.path.isfile(os.path.join(path, "__init__.py"))]  # noqa: PTH113, PTH118


__path__ += [path for path in _other_directories(__name__) if path not in __path__]


def __getattr__(name: str) -> object:
    if name in _JOB_NAMES:
        from anygpu import job

        value: object = getattr(job, name)
        globals()[name] = value
        return value
    if name in _CLIENT_NAMES:
        return _client_attribute(name)
    raise AttributeError(f"module 'anygpu' has no attribute {name!r}; it has {', '.join(__all__)}")


def _client_attribute(name: str) -> object:
    try:
        from anygpu import sdk
    except ImportError as error:
        raise AttributeError(
            f"anygpu.{name} belongs to the client, which is not installed in this job's Python ({error}). "
            "Install the anygpu package to use it."
        ) from error
    value: object = getattr(sdk, name)
    return value
