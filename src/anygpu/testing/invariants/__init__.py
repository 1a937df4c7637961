"""The invariants that must hold after every simulated history. docs/explanation/simulation.md explains them.

They are checked against the records of providers, agents and clients. 1 one terminal state, 2 one committer, 3 nothing
left billing, 4 the ledger, 5 limits, 6 the newest checkpoint, 7 one job per key, 8 nothing acknowledged is lost or
duplicated, 9 deadlines are met, 10 the fold is repeatable, 11 no job starves, 12 no healthy agent is declared lost,
13 migrations pay.
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
