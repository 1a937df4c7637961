"""Errors of the simulated cloud. Each vendor's API translates them to its own codes and messages."""

from enum import StrEnum


class ErrorReason(StrEnum):
    NO_CAPACITY = "no_capacity"
    QUOTA = "quota"
    THROTTLED = "throttled"
    BAD_CREDENTIALS = "bad_credentials"
    NOT_FOUND = "not_found"
    MISMATCH = "mismatch"  # a client token was used again with other parameters
    CONFLICT = "conflict"  # the resource is in use or already exists
    INVALID = "invalid"


class CloudError(Exception):
    """The simulated provider rejected a request.

    `subject` is the id, type or region that caused the error.
    """

    def __init__(self, reason: ErrorReason, message: str, *, subject: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.subject = subject
