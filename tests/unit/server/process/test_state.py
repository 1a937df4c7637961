"""Who owns a state directory."""

from pathlib import Path

from anygpu.server.process.state import leader_name


def test_only_a_server_that_uses_its_state_alone_keeps_the_name_of_its_predecessor() -> None:
    mine, yours = Path("/mine"), Path("/yours")
    assert leader_name(mine, alone=True) == leader_name(mine, alone=True) != leader_name(yours, alone=True)
    assert leader_name(mine, alone=False) != leader_name(mine, alone=False)
