"""Parse the job's output for metrics and progress with a limited share of the CPU."""

from __future__ import annotations

import time

from anygpu.agent.parsers.reader import OutputReader
from anygpu.agent.run.backlog import OutputBacklog, count_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

CPU_FRACTION = 0.05
CPU_BURST_S = 0.5


class ParsingBudget:
    """The CPU time that parsing may use: CPU_BURST_S, and CPU_FRACTION of the time since the start.

    The CPU time of this thread is counted, so other programs on a busy machine do not use up the budget.
    """

    def __init__(self, clock: Callable[[], float], cpu_clock: Callable[[], float]) -> None:
        self._clock, self._cpu_clock = clock, cpu_clock
        self._started_at = clock()
        self._used_s = 0.0

    def is_left(self) -> bool:
        return self._used_s <= CPU_BURST_S + CPU_FRACTION * (self._clock() - self._started_at)

    def measure(self, work: Callable[[], None]) -> None:
        """Do `work`, and count its CPU time."""
        before_s = self._cpu_clock()
        work()
        self._used_s += self._cpu_clock() - before_s


class OutputParser:
    """Parses output as it arrives, as long as the budget lasts.

    Output beyond the budget waits in a backlog. It is parsed when there is budget again, and at the latest by
    `close()`. So the last value of each metric is always read.
    """

    def __init__(
        self,
        on_readings: Callable[[list[Any], float], None],
        backlog: OutputBacklog | None = None,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        """Create the parser. `on_readings` gets the readings, and the Unix time at which they were printed."""
        self._on_readings = on_readings
        self._backlog = OutputBacklog() if backlog is None else backlog
        self._budget = ParsingBudget(clock, cpu_clock)
        self._reader = OutputReader()
        self.line_count = 0

    @property
    def skipped_lines(self) -> int:
        return self._backlog.dropped_lines

    @property
    def first_steps(self) -> dict[str, int]:
        """The first step that the output showed, by unit."""
        return self._reader.first_steps

    @property
    def last_steps(self) -> dict[str, int]:
        """The last step that the output showed, by unit."""
        return self._reader.last_steps

    def feed(self, data: bytes) -> None:
        self.line_count += count_lines(data)
        now = time.time()
        if not self._backlog and self._budget.is_left():
            self._parse(data, now)
            return
        if not self._backlog:
            self._backlog.put_back(self._reader.take_partial_line(), now)
        self._backlog.add(data, now)
        self._catch_up()

    def tick(self) -> None:
        """Parse what waits. Also returns progress that the reader holds back to limit its rate."""
        self._catch_up()
        if not self._backlog:
            self._parse(b"", time.time())

    def close(self) -> None:
        """Parse everything that waits."""
        while self._backlog:
            self._parse(*self._backlog.take())
        now = time.time()
        self._on_readings(self._reader.close(now), now)

    def _catch_up(self) -> None:
        while self._backlog and self._budget.is_left():
            data, at = self._backlog.take()
            self._parse(data, at)
            if self._backlog:
                # The backlog must contain complete lines only, because lines in it may be dropped.
                self._backlog.put_back(self._reader.take_partial_line(), at)

    def _parse(self, data: bytes, at: float) -> None:
        self._budget.measure(lambda: self._on_readings(self._reader.feed(data, at), at))
