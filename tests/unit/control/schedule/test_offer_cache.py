"""Offers are asked for beside the pass: slow, failing and penniless places do not hold up the others."""

import asyncio
from collections.abc import Sequence

from tests.unit.control.shelf import Shelf

from anygpu.backends.contract import AccountStatus, Backend
from anygpu.backends.health import BackendHealth, RequestKind
from anygpu.control.policy import ControlPolicy
from anygpu.control.schedule.offer_cache import OfferCache
from anygpu.errors import RateLimited
from anygpu.events.offers import Offer
from anygpu.spec.sections import Resources
from anygpu.testing.simulation.virtual_time import VirtualClock, VirtualLoop, run

NEED = Resources()
POLICY = ControlPolicy(offers_wait_s=2, offers_age_s=120, account_age_s=300)


class Shop(Shelf):
    """A place with one offer, that answers after a while and may fail."""

    def __init__(self, name: str, *, price: int = 0, takes_s: float = 0.1) -> None:
        super().__init__(name)
        self.price, self.takes_s = price, takes_s
        self.asked, self.failing = 0, False

    async def offers(self, need: Resources) -> Sequence[Offer]:
        self.asked += 1
        await asyncio.sleep(self.takes_s)
        if self.failing:
            raise RateLimited("slow down")
        return [Offer(backend=self.name, price_microusd_per_hour=self.price)]


class Bank(Shop):
    """A place that can say what its account holds."""

    checked = 0

    def __init__(self, name: str, account: AccountStatus) -> None:
        super().__init__(name, price=1_000_000)
        self.account = account

    async def check(self) -> AccountStatus:
        self.checked += 1
        return self.account


def quotes(loop: VirtualLoop, *shops: Shop) -> OfferCache:
    return OfferCache({shop.name: shop for shop in shops}, VirtualClock(loop), POLICY)


def said(offers: Sequence[Offer]) -> dict[str, str]:
    return {offer.backend: offer.refused or offer.wait_reason or "offered" for offer in offers}


def test_a_slow_place_is_not_waited_for_and_its_answer_is_used_in_the_next_pass() -> None:
    async def story(loop: VirtualLoop) -> list[object]:
        slow, quick = Shop("slow", takes_s=5), Shop("quick")
        asked = quotes(loop, slow, quick)
        first = said(await asked.offers(NEED))
        took_s = loop.time()
        await asyncio.sleep(5)
        return [first, took_s, said(await asked.offers(NEED)), slow.asked]

    first, took_s, second, times = run(story)
    assert (first, took_s) == ({"slow": "slow has not answered yet", "quick": "offered"}, 2.0)
    assert (second, times) == ({"slow": "offered", "quick": "offered"}, 2)


def test_a_place_that_fails_now_and_then_keeps_its_last_answer_for_a_while() -> None:
    async def story(loop: VirtualLoop) -> list[dict[str, str]]:
        shop = Shop("shop")
        asked = quotes(loop, shop)
        told = [said(await asked.offers(NEED))]
        shop.failing = True
        told.append(said(await asked.offers(NEED)))
        await asyncio.sleep(121)
        return [*told, said(await asked.offers(NEED))]

    assert run(story) == [{"shop": "offered"}, {"shop": "offered"}, {"shop": "shop: slow down"}]


def test_an_account_that_cannot_pay_for_an_hour_is_refused_and_says_so() -> None:
    async def story(loop: VirtualLoop) -> dict[str, str]:
        poor = Bank("poor", AccountStatus(valid=True, balance_microusd=900_000))
        rich = Bank("rich", AccountStatus(valid=True, balance_microusd=1_000_000))
        void = Bank("void", AccountStatus(valid=False, message="the key was revoked"))
        return said(await quotes(loop, poor, rich, void).offers(NEED))

    assert run(story) == {
        "poor": "the account at the provider has $0.90 left, but an hour costs $1.00; add credit",
        "rich": "offered",
        "void": "the account at the provider cannot be used: the key was revoked",
    }


def test_an_account_is_asked_once_in_a_while() -> None:
    async def story(loop: VirtualLoop) -> list[int]:
        bank = Bank("bank", AccountStatus(valid=True))
        asked, times = quotes(loop, bank), []
        for pause_s in (0, 299, 2):
            await asyncio.sleep(pause_s)
            await asked.offers(NEED)
            times.append(bank.checked)
        return times

    assert run(story) == [1, 1, 2]


class HealthLog(dict[str, BackendHealth]):
    """The health of each backend, as the backend manager keeps it."""

    def record(self, backend: Backend, request: RequestKind, error: str) -> None:
        self.setdefault(backend.name, BackendHealth()).record(request, error, 7)


def test_errors_of_offers_and_accounts_are_recorded_until_a_request_succeeds() -> None:
    async def story(loop: VirtualLoop) -> list[dict[str, list[str]]]:
        shop, void = Shop("shop"), Bank("void", AccountStatus(valid=False, message="the key was revoked"))
        health, told = HealthLog(), []
        cache = OfferCache({"shop": shop, "void": void}, VirtualClock(loop), POLICY, health)
        for failing in (True, False):
            shop.failing = failing
            void.account = AccountStatus(valid=not failing, message="the key was revoked")
            await asyncio.sleep(POLICY.account_age_s)
            await cache.offers(NEED)
            told.append({name: [each.message for each in known.problems] for name, known in health.items()})
        return told

    assert run(story) == [
        {"shop": ["slow down"], "void": ["the key was revoked"]},
        {"shop": [], "void": []},
    ]
