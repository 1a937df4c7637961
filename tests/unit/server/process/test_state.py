"""Who owns a state directory."""

from pathlib import Path

from anygpu.server.process.state import leader_name


def test_who_owns_a_state_alone_takes_over_its_predecessors_lease_and_others_do_not() -> None:
    mine, yours = Path("/mine"), Path("/yours")
    assert leader_name(mine, alone=True) == leader_name(mine, alone=True) != leader_name(yours, alone=True)
    assert leader_name(mine, alone=False) != leader_name(mine, alone=False)
