"""The error tree: each error tells the person who must act what to do, and knows whether trying again helps.

The `code` of an error is stable: programs and the HTTP API depend on it, messages may change.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar


class AnygpuError(Exception):
    """Something went wrong. Read the message; report it if it does not say what to do."""

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str | None = None, *, hint: str = "", **details: Any) -> None:
        """Without a message, the class speaks for itself: its docstring says what happened and what to do."""
        what, _, advice = " ".join((type(self).__doc__ or "").split()).partition(". ")
        self.message = what.removesuffix(".") + "." if message is None else message
        self.hint = advice if message is None and not hint else hint
        self.details = details
        super().__init__(self.message)

    def __str__(self) -> str:
        if not self.hint:
            return self.message
        stop = "" if self.message.endswith((".", "!", "?", ":", "\n")) else "."
        return f"{self.message}{stop} {self.hint}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a spec: where, with what value, why, and what was probably meant."""

    place: str
    value: Any
    message: str
    suggestion: str = ""
    source: str = ""
    line: int | None = None

    def __str__(self) -> str:
        where = f"{self.source}:{self.line}" if self.source and self.line else self.source
        heading = " ".join(part for part in (where, self.place) if part)
        text = f"{heading}: {self.message}" if heading else self.message
        return f"{text}; {self.suggestion}" if self.suggestion else text


class InvalidSpec(AnygpuError):
    """The job description is not valid. Correct the places named and submit again."""

    code = "invalid_spec"

    def __init__(self, problems: Sequence[Problem] = ()) -> None:
        self.problems = tuple(problems)
        listed = "\n".join(str(problem) for problem in self.problems)
        super().__init__(listed or None, problems=[asdict(problem) for problem in self.problems])
        self.args = (
            self.problems,
        )  # so that a copy or a pickle is built from the problems, not from the text


class BadTrace(AnygpuError):
    """The file is not a record of spot availability. Give JSON with `metadata.gap_seconds` and `data` of 0 and 1."""

    code = "bad_trace"


class NotFound(AnygpuError):
    """Nothing here has this name or id. Check the id, the project and the server you are logged in to."""

    code = "not_found"


class Conflict(AnygpuError):
    """The request does not fit the present state. Look at the job again and decide anew."""

    code = "conflict"


class Superseded(Conflict):
    """A newer attempt of this job has taken over. Stop: nothing this attempt commits will be kept."""

    code = "superseded"


class AlreadyClaimed(Conflict):
    """Another agent has claimed this attempt. Leave: this machine is a twin and will be ended."""

    code = "claimed"


class InvalidReport(AnygpuError):
    """The report cannot be read. The agent and the server do not speak the same protocol; update the older one."""

    code = "invalid_report"


class ReportGap(Conflict):
    """Reports are missing before these. Send again from the sequence number in `expected`."""

    code = "gap"


class IncompleteUpload(Conflict):
    """Some chunks are missing or damaged. Send the listed chunks again, then commit again."""

    code = "incomplete"


class Unauthorized(AnygpuError):
    """This request carries no valid token. Log in again with `anygpu login`."""

    code = "unauthorized"


class Forbidden(AnygpuError):
    """Your role does not allow this. Ask an administrator of the organisation."""

    code = "forbidden"


class TooLarge(AnygpuError):
    """This is larger than the limit. Send less, or ask the administrator to raise the limit."""

    code = "too_large"


class RateLimited(AnygpuError):
    """Too many requests in a short time. Wait a moment and try again."""

    code = "rate_limited"
    retryable = True


class UnsafePath(AnygpuError):
    """A path leads outside the directory it belongs to. Use relative paths that stay inside it."""

    code = "unsafe_path"


class QuotaExceeded(AnygpuError):
    """A quota or budget is used up. Wait for work to end, or ask an administrator to raise it."""

    code = "quota_exceeded"


class MeterDiffers(AnygpuError):
    """The provider charges another amount than the ledger says. Compare the attempt with the provider's invoice."""

    code = "meter_differs"


class SecretMissing(AnygpuError):
    """The job needs a secret that is not stored. Add it with `anygpu secret set NAME`."""

    code = "secret_missing"


class LaunchError(AnygpuError):
    """The attempt could not be started. Read the backend's own words and correct the job or the profile."""

    code = "launch_error"


class NoCapacity(LaunchError):
    """No allowed backend has this GPU now. Allow more backends, or wait: the job stays queued."""

    code = "no_capacity"
    retryable = True


class LaunchRefused(LaunchError):
    """The backend refused the request. Correct the credentials, quota or instance type of the profile."""

    code = "launch_refused"


class NoQuota(LaunchRefused):
    """The account's quota does not allow this machine. Ask the provider for more; other allowed backends are used."""

    code = "quota"
    retryable = True


class BackendUnavailable(LaunchError):
    """The backend does not answer. Nothing to do: it is tried again, and other allowed backends are used."""

    code = "backend_unavailable"
    retryable = True


class BackendNotOpen(AnygpuError):
    """A configured backend cannot be used now. `anygpu backend ls` says why; it is tried again by itself."""

    # Not a LaunchError: a machine may run there from before, so nothing is certain.
    code = "backend_not_open"
    retryable = True


class KindUnusable(AnygpuError):
    """This kind of backend cannot be used here. Install what it needs, and restart the server."""

    code = "kind_unusable"


class LeaseLost(AnygpuError):
    """Another process holds the lease now. Stop writing; the new holder continues the work."""

    code = "lease_lost"


class StorageFull(AnygpuError):
    """The disk or bucket is full. Free some space with `anygpu gc`; what was accepted before is kept."""

    code = "storage_full"
    retryable = True


class StoreBusy(AnygpuError):
    """The database is busy. Try again in a moment."""

    code = "store_busy"
    retryable = True


class BlobMissing(AnygpuError):
    """The stored bytes are not there. They were deleted by retention, or never fully uploaded."""

    code = "blob_missing"


class BlobCorrupt(AnygpuError):
    """The stored bytes do not match their checksum. Use an earlier copy; check the disk or bucket."""

    code = "blob_corrupt"


class ServerUnreachable(AnygpuError):
    """The anygpu server does not answer. Start it with `anygpu up`, or check the address and the network."""

    code = "server_unreachable"
    retryable = True


class Internal(AnygpuError):
    """anygpu itself failed; this is a bug. Report it with the output of `anygpu doctor`."""

    code = "internal"


def describe_error(error: BaseException) -> str:
    """Return an exception's message for people; its type if it has no message. OSError numbers are left out."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror} ({error.filename})" if error.filename else error.strerror
    return str(error) or ("timed out" if isinstance(error, TimeoutError) else type(error).__name__)


def every_error(root: type[AnygpuError] = AnygpuError) -> Iterator[type[AnygpuError]]:
    """The root and all its kinds: for documentation, and for clients that turn a code back into an error."""
    yield root
    for kind in root.__subclasses__():
        yield from every_error(kind)
