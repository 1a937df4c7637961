"""Every family of output we read, in the order they are asked. The first that knows a line has it."""

from __future__ import annotations

from anygpu.agent.reading import generic, json_progress, tqdm

FAMILIES = (json_progress.read, tqdm.read, generic.read)
