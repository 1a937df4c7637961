"""Writes the outcome of jobs as they complete; a poll is the safety net for what another process completed."""

import asyncio
from collections.abc import Iterable

from anygpu.control.outcome import AT_ONCE, Recorder
from anygpu.events.fold import Recorded
from anygpu.events.types import JobCompleted
from anygpu.server import log

POLL_S = 60.0


class Recording:
    """`committed` is told of every commit, `run` does the writing."""

    def __init__(self) -> None:
        self._completed = asyncio.Event()

    def committed(self, recorded: Iterable[Recorded]) -> None:
        if any(isinstance(each.event, JobCompleted) for each in recorded):
            self._completed.set()

    async def run(self, recorder: Recorder) -> None:
        """Never returns; cancel it to stop."""
        while True:
            self._completed.clear()
            try:
                while await recorder.run() >= AT_ONCE:
                    pass
            except Exception as error:  # noqa: BLE001  the next pass goes on where this one failed
                log.failure("writing the outcome of completed jobs failed and will be tried again", error)
            await self._woken()

    async def _woken(self) -> None:
        try:
            await asyncio.wait_for(self._completed.wait(), POLL_S)
        except TimeoutError:
            return
