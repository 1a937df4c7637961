"""Errors of the simulated cloud. Each vendor's API translates them to its own codes and messages."""

from enum import StrEnum


class ErrorReason(StrEnum):
    NO_CAPACITY = "no_capacity"
    QUOTA = "quota"
    THROTTLED = "throttled"
    BAD_CREDENTIALS = "bad_credentials"
    NOT_FOUND = "not_found"
    MISMATCH = "mismatch"  # the same client token with other parameters
    CONFLICT = "conflict"  # in use, exists already
    INVALID = "invalid"


class CloudError(Exception):
    """The simulated provider refuses. `subject` names the resource: an id, a type, a region."""

    def __init__(self, reason: ErrorReason, message: str, *, subject: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.subject = subject
