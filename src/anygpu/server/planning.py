"""Where a job could run, before it is submitted: the organisation's own places, and what others rent out."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from anygpu.backends.configured import Backends
from anygpu.control.comparing import ConditionsAt, Remembers, as_place
from anygpu.control.quotes import Quotes
from anygpu.control.seams import Clock
from anygpu.events.facts import Offer
from anygpu.plan.analyse import Analysis
from anygpu.plan.document import document
from anygpu.plan.history import remembered
from anygpu.plan.planner import Place, planned
from anygpu.plan.workload import read_work
from anygpu.server.market import Market
from anygpu.server.work_reader import WorkReader
from anygpu.spec.model import JobSpec


class Planning:
    """Nothing is started, kept or changed by asking."""

    def __init__(
        self,
        backends: Backends,
        quotes: Quotes,
        market: Market,
        reader: WorkReader,
        remembers: Remembers,
        clock: Clock,
        conditions_at: ConditionsAt,
    ) -> None:
        self._backends, self._quotes, self._market = backends, quotes, market
        self._reader, self._remembers, self._clock = reader, remembers, clock
        self._conditions_at = conditions_at

    async def plan(
        self, spec: JobSpec, organisation: str, files: Mapping[str, str], *, most: int | None, short: int
    ) -> dict[str, Any]:
        """`files`: the code, where it was not uploaded. `most` and `short`: see `document`."""
        read = await self._read(spec, organisation, files)
        duration = remembered(spec, read, await self._remembers(spec, organisation))
        own = await self._own(spec, organisation)
        kinds = frozenset(entry.kind for entry in self._backends.entries(organisation))
        places = (await self._market.places(kinds)).joined(own)

        now = datetime.fromtimestamp(self._clock.wall_ms() / 1000, UTC)

        def compared() -> dict[str, Any]:
            found = planned(spec, read, places, deadline_s=spec.limits.seconds_left(now), duration=duration)
            return document(found, read, most=most, short=short)

        return await asyncio.to_thread(compared)

    async def _read(self, spec: JobSpec, organisation: str, files: Mapping[str, str]) -> Analysis | None:
        if files:
            return await asyncio.to_thread(read_work, spec, files)
        return await self._reader(spec, organisation)

    async def _own(self, spec: JobSpec, organisation: str) -> list[Place]:
        offers = await self._quotes.offers(spec.resources)
        mine = [offer for offer in offers if self._backends.visible(offer.backend, organisation)]
        return [as_place(self._priced(offer), self._conditions_at(offer.backend)) for offer in mine]

    def _priced(self, offer: Offer) -> Offer:
        """A machine one owns costs what the organisation says it does."""
        own = self._market.policy.own_microusd_per_hour.get(offer.backend)
        return offer if own is None or offer.paid else replace(offer, price_microusd_per_hour=own)
