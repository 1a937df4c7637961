"""Names of the machines of an attempt."""

import pytest

from anygpu.backends.contract import node_name, split_node_name


@pytest.mark.parametrize(
    ("attempt", "node", "name"),
    [
        ("anygpu-0198f-1", 0, "anygpu-0198f-1"),
        ("anygpu-0198f-1", 1, "anygpu-0198f-1-n1"),
        ("anygpu-0198f-2", 12, "anygpu-0198f-2-n12"),
    ],
)
def test_the_name_of_a_machine_says_its_attempt_and_node(attempt: str, node: int, name: str) -> None:
    assert node_name(attempt, node) == name
    assert split_node_name(name) == (attempt, node)
