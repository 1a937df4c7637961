"""anygpu: train on any GPU.

Importing this costs nothing: a training script imports it for `anygpu.log(...)`, on whatever Python the
machine has (3.9 and later), with nothing installed. Everything is loaded when it is first used.
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
    from anygpu.sdk import Platform as Platform
    from anygpu.sdk import Requirements as Requirements

__version__ = "0.1.0"

_IN_A_JOB = ("log", "progress", "checkpoint", "resume_path", "should_stop", "artifact", "best", "save")
_CLIENT = ("Platform", "Requirements")

__all__ = [*_IN_A_JOB, *_CLIENT, "__version__"]


def _other_places(name: str) -> list[str]:
    """Where else on sys.path this package lies, as pkgutil.extend_path would say, without its 4 ms import.

    Beside a job the agent's own small `anygpu` comes first; an installed one completes it with the client.
    """
    places = [os.path.join(entry or os.getcwd(), name) for entry in sys.path]  # noqa: PTH109, PTH118
    return [place for place in places if os.path.isfile(os.path.join(place, "__init__.py"))]  # noqa: PTH113, PTH118


__path__ += [place for place in _other_places(__name__) if place not in __path__]


def __getattr__(name: str) -> object:
    if name in _IN_A_JOB:
        from anygpu import job

        found: object = getattr(job, name)
        globals()[name] = found
        return found
    if name in _CLIENT:
        return _from_the_client(name)
    raise AttributeError(f"module 'anygpu' has no attribute {name!r}; it has {', '.join(__all__)}")


def _from_the_client(name: str) -> object:
    try:
        from anygpu import sdk
    except ImportError as error:
        raise AttributeError(
            f"anygpu.{name} is the client, which is not installed beside this job ({error}); "
            "install the anygpu package in the job's Python to use it"
        ) from error
    found: object = getattr(sdk, name)
    return found
