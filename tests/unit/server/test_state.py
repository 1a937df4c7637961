"""Who owns a state directory."""

from pathlib import Path

from anygpu.server.state import leader


def test_who_owns_a_state_alone_takes_over_its_predecessors_lease_and_others_do_not() -> None:
    mine, yours = Path("/mine"), Path("/yours")
    assert leader(mine, alone=True) == leader(mine, alone=True) != leader(yours, alone=True)
    assert leader(mine, alone=False) != leader(mine, alone=False)
