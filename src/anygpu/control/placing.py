"""Gives waiting jobs a place: asks for offers, plans, and writes the intent. The keeper then acts on it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from anygpu.backends.contract import Backend
from anygpu.control.policy import Policy
from anygpu.control.queue import in_order, is_impatient, wants_a_place
from anygpu.control.seams import Clock, attempt_name
from anygpu.control.tickets import Tickets, ticket_sha256
from anygpu.errors import BlobCorrupt, BlobMissing
from anygpu.events.facts import CheckpointRef, Offer
from anygpu.events.types import AttemptLaunching, CheckpointRejected, Event, JobWaited
from anygpu.events.view import JobView
from anygpu.plan.route import Plan, route
from anygpu.spec.model import JobSpec, Placement, Resources
from anygpu.store.checkpoints import Checkpoints
from anygpu.store.journal import Guard, Journal
from anygpu.store.scope import SYSTEM

Place = tuple[str, str, str, str]
DecideEvents = Callable[[JobView], list[Event]]


class Placing:
    """One pass gives every waiting job either an intent to launch or the reason why it waits."""

    def __init__(
        self,
        journal: Journal,
        backends: Mapping[str, Backend],
        checkpoints: Checkpoints,
        tickets: Tickets,
        clock: Clock,
        policy: Policy,
    ) -> None:
        self._journal = journal
        self._backends = backends
        self._checkpoints = checkpoints
        self._tickets = tickets
        self._clock = clock
        self._policy = policy

    async def run(self, views: Sequence[JobView], ready: Sequence[JobView], guard: Guard) -> list[JobView]:
        """Place what can be placed among `ready`; `views` are all live jobs. Returns the jobs that changed."""
        now_ms = self._clock.wall_ms()
        places = _Places(views, self._offers)
        changed = []
        for view in in_order(ready, now_ms, self._policy):
            plan = await places.plan(view.spec)
            after = await self._settle(view, plan, guard)
            if after is not None:
                changed.append(after)
            if plan.choice is not None:
                places.take(plan.choice)
            elif is_impatient(view, now_ms, self._policy):
                places.reserve(plan)
        return changed

    async def _offers(self, need: Resources) -> list[Offer]:
        answers = await asyncio.gather(*(_asked(backend, need) for backend in self._backends.values()))
        return [offer for offers in answers for offer in offers]

    async def _settle(self, view: JobView, plan: Plan, guard: Guard) -> JobView | None:
        """Write the intent, or why the job waits; nothing when neither is new."""
        if plan.choice is None:
            return await self._write(view, lambda fresh: _waiting(fresh, plan.reason), guard)
        offer = plan.choice
        try:
            resume, rejected = await self._resume_point(view)
        except Exception as error:  # noqa: BLE001  a store that cannot read one checkpoint must not stop the queue
            reason = f"its checkpoint cannot be read now: {error}"
            return await self._write(view, lambda fresh: _waiting(fresh, reason), guard)

        def launch(fresh: JobView) -> list[Event]:
            if not wants_a_place(fresh) or len(fresh.attempts) != len(view.attempts):
                return []
            return [*rejected, self._intent(fresh, offer, resume)]

        return await self._write(view, launch, guard)

    def _intent(self, view: JobView, offer: Offer, resume: CheckpointRef | None) -> AttemptLaunching:
        number = len(view.attempts) + 1
        return AttemptLaunching(
            attempt=number,
            name=attempt_name(view.id, number),
            offer=offer,
            ticket_sha256=ticket_sha256(self._tickets.ticket(view.id, number)),
            resume=resume,
        )

    async def _resume_point(self, view: JobView) -> tuple[CheckpointRef | None, list[CheckpointRejected]]:
        """The newest checkpoint that can be read back, and those that cannot."""
        rejected: list[CheckpointRejected] = []
        for checkpoint in reversed(view.checkpoints):
            try:
                await self._checkpoints.check(checkpoint.manifest)
            except (BlobCorrupt, BlobMissing) as error:
                number = len(view.attempts) + 1
                rejected.append(
                    CheckpointRejected(attempt=number, checkpoint_id=checkpoint.id, reason=str(error))
                )
            else:
                return checkpoint, rejected
        return None, rejected

    async def _write(self, view: JobView, decide: DecideEvents, guard: Guard) -> JobView | None:
        at_ms = self._clock.wall_ms()
        if not decide(view):
            return None
        written = await self._journal.transact(SYSTEM, view.id, decide, at_ms=at_ms, guard=guard)
        return written.view if written.recorded else None


class _Places:
    """What is left of the offers during one pass. Jobs that ask for the same are planned once."""

    def __init__(self, views: Sequence[JobView], ask: Callable[[Resources], Awaitable[list[Offer]]]) -> None:
        self._ask = ask
        self._taken = _intents(views)
        self._blocked: set[Place] = set()
        self._offers: dict[Resources, list[Offer]] = {}
        self._plans: dict[tuple[Resources, Placement, str | None], Plan] = {}

    async def plan(self, spec: JobSpec) -> Plan:
        key = (spec.resources, spec.placement, spec.image)
        plan = self._plans.get(key)
        if plan is None:
            if spec.resources not in self._offers:
                self._offers[spec.resources] = await self._ask(spec.resources)
            left = [_left(offer, self._taken, self._blocked) for offer in self._offers[spec.resources]]
            plan = self._plans[key] = route(spec, left)
        return plan

    def take(self, offer: Offer) -> None:
        self._taken[_place(offer)] = self._taken.get(_place(offer), 0) + 1
        self._plans.clear()

    def reserve(self, plan: Plan) -> None:
        """Nobody behind the job that waits for these may have them."""
        wanted = {_place(ranked.offer) for ranked in plan.ranked if ranked.waits}
        if not wanted <= self._blocked:
            self._blocked |= wanted
            self._plans.clear()


async def _asked(backend: Backend, need: Resources) -> Sequence[Offer]:
    try:
        return await backend.offers(need)
    except Exception as error:  # noqa: BLE001  a place that does not answer must not close the others
        reason = f"{backend.name}: {str(error) or type(error).__name__}"
        return [Offer(backend=backend.name, free=0, wait_reason=reason)]


def _waiting(view: JobView, reason: str) -> list[Event]:
    known = view.reason == reason
    return [] if known or not wants_a_place(view) else [JobWaited(reason=reason)]


def _intents(views: Sequence[JobView]) -> dict[Place, int]:
    """Attempts that were promised a place and do not show in their backend's offers yet."""
    taken: dict[Place, int] = {}
    for view in views:
        live = view.live_attempt
        if live is not None and live.handle is None and live.claimant is None:
            taken[_place(live.offer)] = taken.get(_place(live.offer), 0) + 1
    return taken


def _left(offer: Offer, taken: Mapping[Place, int], blocked: set[Place]) -> Offer:
    if offer.free is None:
        return offer
    left = 0 if _place(offer) in blocked else max(0, offer.free - taken.get(_place(offer), 0))
    if left or offer.wait_reason:
        return replace(offer, free=left)
    return replace(offer, free=0, wait_reason=f"all slots of {offer.backend} are taken")


def _place(offer: Offer) -> Place:
    return offer.backend, offer.region, offer.zone, offer.name
