"""Classify the error messages of Slurm's commands. Pure functions."""

import re
from enum import StrEnum

from anygpu.backends.slurm.states import HOPELESS

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
# Names of limits that sbatch prints. Only those of the number of jobs depend on other jobs: at the submission, Slurm
# compares the others, also those of groups, with this job alone.
LIMIT_NAME = re.compile(r"\b(?:(?:QOS|Assoc)(?:Grp|Max|Min)\w+|Max\w+PerAccount)\b")
JOB_TOO_LARGE = (
    "the account or the quality of service does not allow a job of this size or length; request less, or set the "
    "option max_run_s"
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
    kind = next((kind for kind, texts in marks.items() if any(mark in text for mark in texts)), Refusal.FINAL)
    return Refusal.FINAL if kind is Refusal.LIMIT and describe_exceeded_limit(text) else kind


def describe_exceeded_limit(text: str) -> str:
    """Return the limit that this job alone exceeds, with what to do, or an empty string.

    Slurm prints the same sentence for such a limit and for the number of jobs; only the name before it differs.
    """
    names = LIMIT_NAME.findall(text)
    if not names or any("Submit" in name for name in names):
        return ""
    return f"{names[-1]}: {HOPELESS.get(names[-1], JOB_TOO_LARGE)}"
