"""Check the invariants, which every simulated history must satisfy, against records of providers, agents and clients.

docs/explanation/simulation.md lists the invariants by number and explains them.
"""

from anygpu.testing.invariants import (
    attempts,
    checkpoints,
    deadlines,
    gangs,
    jobs,
    machines,
    migrations,
    money,
    resumes,
    sharing,
    storage,
)
from anygpu.testing.invariants.timeline import Violation, job_timelines
from anygpu.testing.simulation.world import SimWorld

__all__ = ["Violation", "violations"]


async def violations(world: SimWorld) -> list[Violation]:
    """Check all invariants of a history, and return what violates them.

    For a job with a damaged event, only its machines are checked: they must end all the same.
    """
    every = job_timelines(world)
    timelines = {job_id: each for job_id, each in every.items() if job_id not in world.damaged_jobs}
    return [
        *jobs.check(world, timelines),
        *attempts.check(world, timelines),
        *machines.check(world, every),
        *money.check(world, timelines),
        *deadlines.check(world, timelines),
        *migrations.check(world, timelines),
        *checkpoints.check(world, timelines),
        *resumes.check(world, timelines),
        *gangs.check(world, timelines),
        *sharing.check(world, timelines),
        *await storage.check(world, timelines),
    ]
