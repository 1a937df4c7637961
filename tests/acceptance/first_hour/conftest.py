"""One world for all steps, and the check that no step rents a machine unasked."""

from collections.abc import Iterator

import pytest
from tests.acceptance.first_hour.newcomer import Newcomer, open_first_hour


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newcomer]:
    with open_first_hour(tmp_path_factory.mktemp("first_hour")) as newcomer:
        yield newcomer


@pytest.fixture
def consent() -> None:
    """A step with this fixture allows a paid machine."""


@pytest.fixture
def newcomer(world: Newcomer, request: pytest.FixtureRequest) -> Iterator[Newcomer]:
    """The newcomer in an empty directory. The cloud's own books say whether the step rented a machine."""
    before = world.rented()
    yield world.at(request.node.name)
    if "consent" not in request.fixturenames:
        assert world.rented() == before, "a machine was rented unasked"
