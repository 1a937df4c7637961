"""Classify the error messages of Slurm's commands. Pure functions."""

from enum import StrEnum

SUBMISSION_LIMITS = (
    "MaxSubmitJob",
    "job submit limit",
    "accounting/QOS policy",
    # The controller has MaxJobCount jobs.
    "Resource temporarily unavailable",
    "temporarily unable to accept job",
)
OUTCOME_UNKNOWN = (
    "Socket timed out",
    "Zero Bytes were transmitted",
    "Unexpected message received",
    "Message receive failure",
    "Protocol authentication error",
)
UNREACHABLE = ("Unable to contact slurm controller", "Connection refused", "backup controller")


class Refusal(StrEnum):
    """What an error message of Slurm says about a request."""

    OUTCOME_UNKNOWN = "outcome_unknown"  # the connection failed after the request was sent
    UNREACHABLE = "unreachable"  # no controller answers
    LIMIT = "limit"  # the user or the cluster has too many jobs now
    FINAL = "final"  # the same request will be refused again


def classify_refusal(text: str) -> Refusal:
    """Return what a message says. A text that is not known is a final refusal."""
    marks = {
        Refusal.OUTCOME_UNKNOWN: OUTCOME_UNKNOWN,
        Refusal.UNREACHABLE: UNREACHABLE,
        Refusal.LIMIT: SUBMISSION_LIMITS,
    }
    return next((kind for kind, texts in marks.items() if any(mark in text for mark in texts)), Refusal.FINAL)
