"""A cost entry is the same after it was stored."""

from dataclasses import replace

from anygpu.events.costs import CostEntry
from anygpu.store.sql.cost_rows import COLUMNS, from_row, to_row

ENTRY = CostEntry(
    job_id="job",
    attempt=2,
    part=1,
    started_at_ms=1000,
    ended_at_ms=4000,
    cost_microusd=12,
    saved_microusd=3,
    person="ada",
    backend="lambda",
    gpu_kind="A10",
    gpu_count=1,
    interruptible=True,
    interrupted=False,
    lost_s=1.5,
    lost_microusd=4,
    tags=("night", "é"),
)


def test_an_entry_is_the_same_after_it_was_stored() -> None:
    assert from_row(to_row(ENTRY)) == ENTRY
    other = replace(ENTRY, interruptible=False, interrupted=True, tags=())
    assert from_row(to_row(other)) == other


def test_text_that_a_database_cannot_store_is_cleaned() -> None:
    row = dict(zip(COLUMNS, to_row(replace(ENTRY, person="a\0b", gpu_kind="\ud800")), strict=True))
    assert "\0" not in row["person"]
    row["gpu_kind"].encode()
