"""Check the invariants, which every simulated history must satisfy, against records of providers, agents and clients.

docs/explanation/simulation.md lists the invariants by number and explains them.
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
