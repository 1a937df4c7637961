"""Cache the offers and account checks of backends, so that slow backends do not delay scheduling."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from anygpu.backends.contract import AccountStatus, Backend, SupportsAccountCheck
from anygpu.backends.health import NO_HEALTH_RECORDER, HealthRecorder, RequestKind, account_error
from anygpu.control.accounting.money import format_dollars
from anygpu.control.clock import Clock
from anygpu.control.policy import ControlPolicy
from anygpu.errors import describe_error
from anygpu.events.offers import Offer
from anygpu.spec.sections import Resources

T = TypeVar("T")
MAX_ERRORS = 1000  # remembered errors
ANSWER_AGE_S = 5.0  # what machines a backend has changes rarely


@dataclass(frozen=True, slots=True)
class _CachedValue(Generic[T]):
    at: float
    value: T


class RequestFailed(Exception):
    """A request to a backend failed. A cached result that is not too old stays valid."""


class RequestCache(Generic[T]):
    """Runs requests in the background, at most one per key at a time, and caches the results."""

    def __init__(self, clock: Clock, wait_s: float, forget_s: float) -> None:
        self._clock = clock
        self._wait_s = wait_s
        self._forget_s = forget_s
        self._pending: dict[Hashable, asyncio.Task[None]] = {}
        self._values: dict[Hashable, _CachedValue[T]] = {}
        self._errors: dict[Hashable, str] = {}

    async def refresh(
        self, questions: Mapping[Hashable, Callable[[], Awaitable[T]]], *, age_s: float
    ) -> None:
        """Start a request for each result that is missing or older than `age_s`, and wait briefly for the answers."""
        now = self._clock.monotonic()
        fresh = {key for key, known in self._values.items() if now - known.at < age_s}
        for key, question in questions.items():
            if key not in fresh and key not in self._pending:
                self._pending[key] = asyncio.create_task(self._run(key, question))
        await self._wait([self._pending[key] for key in questions if key in self._pending])

    def get(self, key: Hashable) -> T | None:
        """Return the last result, or None if there is none or the last one is too old."""
        answer = self._values.get(key)
        if answer is None or self._clock.monotonic() - answer.at > self._forget_s:
            return None
        return answer.value

    def error(self, key: Hashable) -> str:
        """Return why the last request failed, or an empty string if it succeeded or is still running."""
        return self._errors.get(key, "")

    async def _run(self, key: Hashable, question: Callable[[], Awaitable[T]]) -> None:
        try:
            value = await question()
            self._values[key] = _CachedValue(self._clock.monotonic(), value)
            self._errors.pop(key, None)
        except RequestFailed as error:
            self._errors[key] = str(error)
        finally:
            self._pending.pop(key, None)

    async def _wait(self, asked: Sequence["asyncio.Task[None]"]) -> None:
        if not asked:
            return
        answered = asyncio.ensure_future(asyncio.wait(asked))
        patience = asyncio.ensure_future(self._clock.sleep(self._wait_s))
        try:
            await asyncio.wait([answered, patience], return_when=asyncio.FIRST_COMPLETED)
        finally:
            answered.cancel()
            patience.cancel()
        self._drop_old()

    def _drop_old(self) -> None:
        now = self._clock.monotonic()
        self._values = {key: a for key, a in self._values.items() if now - a.at <= self._forget_s}
        if len(self._errors) > MAX_ERRORS:
            self._errors.clear()


class OfferCache:
    """The current offers of all backends. Offers that the account cannot pay for are marked as refused."""

    def __init__(
        self,
        backends: Mapping[str, Backend],
        clock: Clock,
        policy: ControlPolicy,
        health: HealthRecorder = NO_HEALTH_RECORDER,
    ) -> None:
        self._backends = backends
        self._policy = policy
        self._health = health
        self._offers = RequestCache[Sequence[Offer]](clock, policy.offers_wait_s, policy.offers_age_s)
        self._accounts = RequestCache[AccountStatus | None](
            clock, policy.offers_wait_s, 2 * policy.account_age_s
        )

    async def offers(self, need: Resources, *, age_s: float = 0) -> list[Offer]:
        """Return the offers of all backends. Offers that are less than `age_s` old are not requested again."""
        backends = dict(self._backends)
        await self._offers.refresh(
            {(name, need): self._offers_request(backend, need) for name, backend in backends.items()},
            age_s=age_s,
        )
        found = {name: self._offers.get((name, need)) for name in backends}
        paid = {name for name, offers in found.items() if any(offer.is_paid for offer in offers or ())}
        await self._check_accounts({name: backends[name] for name in paid})
        return [
            self._with_balance(name, offer)
            for name, offers in found.items()
            for offer in (self._unavailable(name, need) if offers is None else offers)
        ]

    async def answers(self, need: Resources, names: Collection[str]) -> dict[str, Sequence[Offer] | None]:
        """Return the offers of the named backends, at most `ANSWER_AGE_S` old; None for one that does not answer.

        Accounts are not checked.
        """
        backends = {name: backend for name, backend in self._backends.items() if name in names}
        await self._offers.refresh(
            {(name, need): self._offers_request(backend, need) for name, backend in backends.items()},
            age_s=ANSWER_AGE_S,
        )
        return {name: self._offers.get((name, need)) for name in backends}

    def _unavailable(self, name: str, need: Resources) -> list[Offer]:
        reason = self._offers.error((name, need)) or f"{name} has not answered yet"
        return [Offer(backend=name, free=0, wait_reason=reason, answered=False)]

    def _offers_request(self, backend: Backend, need: Resources) -> Callable[[], Awaitable[Sequence[Offer]]]:
        async def ask() -> Sequence[Offer]:
            try:
                offers = await backend.offers(need)
            except Exception as error:
                reason = describe_error(error)
                self._health.record(backend, RequestKind.OFFERS, reason)
                raise RequestFailed(f"{backend.name}: {reason}") from error
            self._health.record(backend, RequestKind.OFFERS, "")
            return offers

        return ask

    async def _check_accounts(self, backends: Mapping[str, Backend]) -> None:
        checks = {name: each for name, each in backends.items() if isinstance(each, SupportsAccountCheck)}
        questions = {
            _account_key(name, each): self._account_request(backends[name], each)
            for name, each in checks.items()
        }
        await self._accounts.refresh(questions, age_s=self._policy.account_age_s)

    def _account_request(
        self, backend: Backend, account: SupportsAccountCheck
    ) -> Callable[[], Awaitable[AccountStatus | None]]:
        async def ask() -> AccountStatus | None:
            try:
                status = await account.check()
            except Exception as error:  # noqa: BLE001  a failed check does not block the backend
                self._health.record(backend, RequestKind.ACCOUNT, describe_error(error))
                return None
            self._health.record(backend, RequestKind.ACCOUNT, account_error(status))
            return status

        return ask

    def _with_balance(self, name: str, offer: Offer) -> Offer:
        """Return the offer, marked as refused if the account is invalid or cannot pay for an hour."""
        account = self._accounts.get(_account_key(name, self._backends.get(name)))
        if account is None or not offer.is_paid or offer.refused:
            return offer
        if not account.valid:
            return replace(offer, refused=f"the account at the provider cannot be used: {account.message}")
        least = max(
            offer.price_microusd_per_hour, offer.billing.cost_microusd(offer.price_microusd_per_hour, 0)
        )
        if account.balance_microusd is None or account.balance_microusd >= least:
            return offer
        balance = format_dollars(account.balance_microusd)
        return replace(
            offer,
            refused=f"the account at the provider has {balance} left, but an hour costs {format_dollars(least)}; add "
            "credit",
        )


def _account_key(name: str, backend: object) -> Hashable:
    """Return a cache key that changes with the backend's credentials.

    The result of a check with the old credentials is therefore not used for the new ones.
    """
    return name, id(backend)
