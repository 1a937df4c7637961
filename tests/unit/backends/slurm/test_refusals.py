"""Error messages of Slurm: which of them are only temporary."""

import pytest

from anygpu.backends.slurm.refusals import Refusal, classify_refusal


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Unable to contact slurm controller (connect failure)", Refusal.UNREACHABLE),
        ("Socket timed out on send/recv operation", Refusal.OUTCOME_UNKNOWN),
        ("AssocMaxSubmitJobLimit", Refusal.LIMIT),
        (
            "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
            Refusal.LIMIT,
        ),
        ("Slurm temporarily unable to accept job, sleeping and retrying", Refusal.LIMIT),
        ("Invalid qos specification", Refusal.FINAL),
        ("Invalid account or account/partition combination specified", Refusal.FINAL),
        ("", Refusal.FINAL),
    ],
)
def test_temporary_messages_are_told_apart_from_final_ones(text: str, expected: Refusal) -> None:
    assert classify_refusal(text) is expected
