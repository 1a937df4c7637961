"""Results.

What the spec's `outputs` name and what lies in ANYGPU_OUTPUT_DIR, published when the job has ended.
"""

from __future__ import annotations

import os

from anygpu.agent import snapshot
from anygpu.agent.environment import directories
from anygpu.agent.patterns import files_matching
from anygpu.agent.uploader import Upload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from anygpu.agent.uploader import Uploader


def publish_outputs(cwd: str, patterns: list[str], snapshots: str, uploader: Uploader) -> None:
    """Names are relative posix paths; those in ANYGPU_OUTPUT_DIR are relative to it, and win."""
    outputs, _ = directories(cwd)
    found = dict.fromkeys(files_matching(cwd, patterns), cwd)
    found.update(dict.fromkeys(files_matching(outputs, ["**", ".*"]), outputs))
    for number, (name, root) in enumerate(sorted(found.items())):
        take = _taker(root, name, os.path.join(snapshots, f"output-{number}"))
        uploader.add(Upload(f"artifact {name}", take=take, name=name))


def _taker(root: str, name: str, target: str) -> Callable[[], str]:
    """The file's own name alone lies in the snapshot: its directories are in the artifact's name already."""

    def take() -> str:
        folder, base = os.path.split(os.path.join(root, name))
        return snapshot.take(folder, [base], target, {base})

    return take
