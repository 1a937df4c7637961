"""All errors of anygpu. Each says what is wrong and what to do, and whether a retry can help.

The `code` of an error is stable, because programs and the HTTP API depend on it. Messages may change.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar


class AnygpuError(Exception):
    """The operation failed. Read the message; report a bug if it does not say what to do."""

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str | None = None, *, hint: str = "", **details: Any) -> None:
        """Set message and hint.

        Without a message, the class's docstring is used: its first sentence is the message, the rest is the
        hint.
        """
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
    """One problem of a spec or request: the field (`place`), its value, a message, and a suggestion."""

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
    """The job spec is not valid. Correct the listed fields and submit it again."""

    code = "invalid_spec"

    def __init__(self, problems: Sequence[Problem] = ()) -> None:
        self.problems = tuple(problems)
        listed = "\n".join(str(problem) for problem in self.problems)
        super().__init__(listed or None, problems=[asdict(problem) for problem in self.problems])
        self.args = (self.problems,)  # copies and pickles are built from the problems, not from the text


class NoBackendFits(AnygpuError):
    """No configured backend could ever run this job. Change what the job needs, or add a backend that has it."""

    code = "no_backend_fits"


class NeedsPaidConsent(AnygpuError):
    """Only machines that cost money can run this job. Allow them with `--paid` or `placement.paid: true`."""

    code = "needs_paid_consent"


class NeedsSnapshot(AnygpuError):
    """The server's machine cannot run this job. Submit it with `--snapshot`, so that other machines get its files."""

    code = "needs_snapshot"


class MaxCostTooLow(AnygpuError):
    """The budget pays for no machine that can run this job. Raise `--max-cost`, or change what the job needs."""

    code = "max_cost_too_low"


class BadTrace(AnygpuError):
    """The file is not a record of spot availability. Give JSON with `metadata.gap_seconds`, and `data` of 0 and 1."""

    code = "bad_trace"


class NotFound(AnygpuError):
    """Nothing with this name or id exists. Check the id, the project and the server you are logged in to."""

    code = "not_found"


class Conflict(AnygpuError):
    """The job has changed, and the request no longer fits. Look at it with `anygpu show`, then decide again."""

    code = "conflict"


class Superseded(Conflict):
    """A newer attempt replaced this attempt of the job. Stop its agent: the server accepts nothing from it."""

    code = "superseded"


class AlreadyClaimed(Conflict):
    """Another agent has already claimed this attempt. Stop this agent: its machine is a duplicate and is terminated."""

    code = "claimed"


class InvalidReport(AnygpuError):
    """The server cannot read the agent's report. Agent and server have different versions; update the older one."""

    code = "invalid_report"


class ReportGap(Conflict):
    """The server has not received earlier reports of the agent. Send them again from the number in `expected`."""

    code = "gap"


class IncompleteUpload(Conflict):
    """Some chunks of the upload are missing or damaged. Upload the listed chunks again, then commit again."""

    code = "incomplete"


class Unauthorized(AnygpuError):
    """The request has no valid token. Log in again with `anygpu login`."""

    code = "unauthorized"


class Forbidden(AnygpuError):
    """The role of your token does not allow this request. Ask an administrator for a token with another role."""

    code = "forbidden"


class TooLarge(AnygpuError):
    """The request is larger than the server's limit. Send less, or ask the operator to raise it (settings `limits`)."""

    code = "too_large"


class RateLimited(AnygpuError):
    """Too many requests in a short time. Wait a moment and try again."""

    code = "rate_limited"
    retryable = True


class UnsafePath(AnygpuError):
    """A path leads outside of its directory. Use relative paths without `..`, and no links that leave the directory."""

    code = "unsafe_path"


class QuotaExceeded(AnygpuError):
    """A quota or budget is used up. Wait until other jobs end, or ask an administrator for a higher limit."""

    code = "quota_exceeded"


class MeterDiffers(AnygpuError):
    """The provider charged another amount than anygpu recorded for an attempt. Check the provider's invoice."""

    code = "meter_differs"


class SecretMissing(AnygpuError):
    """The job needs a secret that is not stored. Add it with `anygpu secret set NAME`."""

    code = "secret_missing"


class LaunchError(AnygpuError):
    """The machine for the job could not be started. Read the backend's message; correct the job or the backend."""

    code = "launch_error"


class NoCapacity(LaunchError):
    """None of the allowed backends has this GPU now. Allow more backends, or wait: the job stays queued."""

    code = "no_capacity"
    retryable = True


class LaunchRefused(LaunchError):
    """The backend refused to start a machine. Correct the credentials, quota or machine types of the backend."""

    code = "launch_refused"


class NoQuota(LaunchRefused):
    """The account's quota does not allow this machine. Ask the provider for more; meanwhile other backends are used."""

    code = "quota"
    retryable = True


class BackendUnavailable(LaunchError):
    """The backend does not respond. No action is needed: it is retried, and other allowed backends are used."""

    code = "backend_unavailable"
    retryable = True


class BackendNotOpen(AnygpuError):
    """A configured backend cannot be used now. `anygpu backend ls` shows the reason; it is retried automatically."""

    # Not a LaunchError: a machine from an earlier launch may still run there.
    code = "backend_not_open"
    retryable = True


class KindUnusable(AnygpuError):
    """This kind of backend cannot be used on this server. Install the packages it needs, and restart the server."""

    code = "kind_unusable"


class LeaseLost(AnygpuError):
    """Another server process now controls the jobs. No action is needed: that process continues the work."""

    code = "lease_lost"


class StorageFull(AnygpuError):
    """The disk or bucket is full. Free space with `anygpu gc --empty-trash`; no data that was accepted is lost."""

    code = "storage_full"
    retryable = True


class StoreBusy(AnygpuError):
    """The server's database is busy with other requests. Try again in a moment."""

    code = "store_busy"
    retryable = True


class JobDamaged(AnygpuError):
    """The stored events of this job are damaged, so it cannot be changed. Restore the database, or delete the job."""

    code = "job_damaged"
    retryable = True


class BlobMissing(AnygpuError):
    """A stored file is missing: it was too old and was deleted, or its upload never ended. Choose another file."""

    code = "blob_missing"


class BlobCorrupt(AnygpuError):
    """A stored file does not match its checksum. Use an earlier copy, and check the disk or bucket."""

    code = "blob_corrupt"


class ServerUnreachable(AnygpuError):
    """The anygpu server does not respond. Start it with `anygpu up`, or check the address and the network."""

    code = "server_unreachable"
    retryable = True


class Internal(AnygpuError):
    """An internal error occurred; this is a bug. Report it with the output of `anygpu doctor`."""

    code = "internal"


def describe_error(error: BaseException) -> str:
    """Return an exception's message for people, or the name of its type if it has no message.

    The number of an OSError is left out.
    """
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror} ({error.filename})" if error.filename else error.strerror
    return str(error) or ("timed out" if isinstance(error, TimeoutError) else type(error).__name__)


def every_error(root: type[AnygpuError] = AnygpuError) -> Iterator[type[AnygpuError]]:
    """Yield an error class and all its subclasses.

    For documentation, and for clients that map codes to errors.
    """
    yield root
    for kind in root.__subclasses__():
        yield from every_error(kind)
