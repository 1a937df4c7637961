"""What must hold after every history, checked against the provider's books and what agents and people wrote down.

The numbers are those of the design: 1 one end, 2 one committer, 3 nothing left billing, 4 the ledger, 5 limits,
6 the newest checkpoint, 7 one job for one key, 8 nothing acknowledged is lost or doubled, 9 deadlines are met,
10 the fold repeats, 11 nobody starves; 12 slow to declare death, 13 a job moves only when it pays.
"""

from anygpu.testing.invariants import (
    attempts,
    checkpoints,
    deadlines,
    jobs,
    machines,
    migrations,
    money,
    sharing,
    storage,
)
from anygpu.testing.invariants.timeline import Violation, job_timelines
from anygpu.testing.simulation.world import SimWorld

__all__ = ["Violation", "violations"]


async def violations(world: SimWorld) -> list[Violation]:
    timelines = job_timelines(world)
    return [
        *jobs.check(world, timelines),
        *attempts.check(world, timelines),
        *machines.check(world, timelines),
        *money.check(world, timelines),
        *deadlines.check(world, timelines),
        *migrations.check(world, timelines),
        *checkpoints.check(world, timelines),
        *sharing.check(world, timelines),
        *await storage.check(world, timelines),
    ]
