"""Every event is documented, with its fields."""

from dataclasses import fields
from pathlib import Path

import pytest

from anygpu.events.types import EVENTS, Event

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "events.md").read_text()


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
def test_the_page_names_every_event_and_its_fields(kind: type[Event]) -> None:
    row = next((line for line in PAGE.splitlines() if line.startswith(f"| `{kind.__name__}`")), "")
    assert row, f"docs/reference/events.md has no row for {kind.__name__}"
    assert [field.name for field in fields(kind) if field.name not in row] == []
