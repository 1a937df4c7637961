"""What this process last learned about its backends: the last check, and the last error of each kind of request.

It is kept in memory while the configuration of a backend does not change. Each server knows what its own requests
returned since it started.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from anygpu.backends.contract import AccountStatus, Backend
from anygpu.events.offers import Offer


class RequestKind(StrEnum):
    """A kind of request to a backend, in the order in which their errors matter."""

    ACCOUNT = "account"
    OFFERS = "offers"
    LAUNCH = "launch"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendCheck:
    """The result of checking a backend: its account and its offers."""

    account: AccountStatus
    offers: Sequence[Offer] = ()
    failed_request: RequestKind = RequestKind.ACCOUNT  # if `account` is not valid

    @property
    def cheapest_gpu(self) -> Offer | None:
        usable = [offer for offer in self.offers if offer.gpu_count and not offer.refused]
        return min(usable, key=lambda offer: offer.price_microusd_per_hour, default=None)

    @property
    def refused_offers(self) -> Sequence[Offer]:
        return [offer for offer in self.offers if offer.refused]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendProblem:
    """Why the last request of a kind failed, and when."""

    request: RequestKind
    message: str
    at_ms: int


@dataclass(slots=True, kw_only=True)
class BackendHealth:
    """What is known about one backend. A later success of the same kind of request removes a problem."""

    check: BackendCheck | None = None
    checked_at_ms: int = 0
    answered_at_ms: int = 0  # when a request last succeeded
    _problems: dict[RequestKind, BackendProblem] = field(default_factory=dict)

    @property
    def problems(self) -> list[BackendProblem]:
        return [self._problems[each] for each in RequestKind if each in self._problems]

    def record(self, request: RequestKind, error: str, at_ms: int) -> None:
        """Record how a request ended. An empty `error` means that it succeeded."""
        if error:
            self._problems[request] = BackendProblem(request=request, message=error, at_ms=at_ms)
        else:
            self._problems.pop(request, None)
            self.answered_at_ms = at_ms

    def record_check(self, check: BackendCheck, at_ms: int) -> None:
        self.check, self.checked_at_ms = check, at_ms
        if check.account.valid:
            self.record(RequestKind.ACCOUNT, "", at_ms)
            self.record(RequestKind.OFFERS, "", at_ms)
        else:
            self.record(check.failed_request, account_error(check.account), at_ms)


def account_error(account: AccountStatus) -> str:
    """Return why the account cannot be used; empty if it can."""
    return "" if account.valid else account.message or "the provider does not accept the credentials"


class HealthRecorder(Protocol):
    """Records how requests to backends end."""

    def record(self, backend: Backend, request: RequestKind, error: str) -> None:
        """Record the end of a request. An empty `error` means that it succeeded."""


class NoHealthRecorder:
    """Records nothing, for a control loop whose backends nobody looks at."""

    def record(self, backend: Backend, request: RequestKind, error: str) -> None:
        pass


NO_HEALTH_RECORDER = NoHealthRecorder()
