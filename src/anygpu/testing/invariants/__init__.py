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
    money,
    moves,
    sharing,
    stored,
)
from anygpu.testing.invariants.story import Violation, stories_of
from anygpu.testing.world import World

__all__ = ["Violation", "violations"]


async def violations(world: World) -> list[Violation]:
    stories = stories_of(world)
    return [
        *jobs.check(world, stories),
        *attempts.check(world, stories),
        *machines.check(world, stories),
        *money.check(world, stories),
        *deadlines.check(world, stories),
        *moves.check(world, stories),
        *checkpoints.check(world, stories),
        *sharing.check(world, stories),
        *await stored.check(world, stories),
    ]
