"""Why the simulated cloud says no. A dialect puts it in its vendor's own words."""

from enum import StrEnum


class Why(StrEnum):
    NO_CAPACITY = "no_capacity"
    QUOTA = "quota"
    THROTTLED = "throttled"
    BAD_CREDENTIALS = "bad_credentials"
    NOT_FOUND = "not_found"
    MISMATCH = "mismatch"  # the same client token with other parameters
    CONFLICT = "conflict"  # in use, exists already
    INVALID = "invalid"


class Refusal(Exception):
    """The simulated provider refuses. `what` names the thing it is about: an id, a type, a region."""

    def __init__(self, why: Why, message: str, *, what: str = "") -> None:
        super().__init__(message)
        self.why = why
        self.message = message
        self.what = what
