"""Gives waiting jobs a place: asks for offers, plans, and writes the intent. The keeper then acts on it."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from anygpu.backends.contract import Backend
from anygpu.control.budget import budget_failure, left_microusd
from anygpu.control.comparing import Compared, Comparing, foretold, is_a_choice, work_key
from anygpu.control.cooling import Cooling
from anygpu.control.deadline import has_deadline, moving
from anygpu.control.deadlines import Deadlines
from anygpu.control.elsewhere import better, headed_for, telling
from anygpu.control.explaining import Explaining
from anygpu.control.moves import Moves
from anygpu.control.policy import Policy
from anygpu.control.pool import Standing, Waiting, in_turn, pool_job, standing
from anygpu.control.queue import is_impatient, wants_a_place
from anygpu.control.quotes import Quotes
from anygpu.control.room import Full, make_room
from anygpu.control.seams import Clock, attempt_name
from anygpu.control.tickets import Tickets, ticket_sha256
from anygpu.errors import BlobCorrupt, BlobMissing
from anygpu.events.facts import CheckpointRef, Offer, Place
from anygpu.events.types import AttemptLaunching, CheckpointRejected, Event, JobFailed, JobWaited
from anygpu.events.view import JobView
from anygpu.plan.offers.fit import JobConstraints, Plan, has_resume_path, make_plan
from anygpu.spec.model import Resources
from anygpu.store.checkpoints import Checkpoints
from anygpu.store.journal import Guard, Journal
from anygpu.store.scope import SYSTEM

DecideEvents = Callable[[JobView], list[Event]]
Visible = Callable[[str, str], bool]  # backend, organisation


class Placing:
    """One pass gives every waiting job either an intent to launch or the reason why it waits."""

    def __init__(
        self,
        journal: Journal,
        backends: Mapping[str, Backend],
        checkpoints: Checkpoints,
        comparing: Comparing,
        tickets: Tickets,
        clock: Clock,
        policy: Policy,
        visible: Visible = lambda backend, organisation: True,
    ) -> None:
        self._journal = journal
        self._visible = visible
        self._quotes = Quotes(backends, clock, policy)
        self._cooling = Cooling(clock, policy)
        self.deadlines = Deadlines(clock, policy)
        self.moves = Moves(clock, policy.moving)
        self._checkpoints = checkpoints
        self._tickets = tickets
        self._clock = clock
        self._policy = policy
        self._comparing = comparing
        self.explaining = Explaining(journal, self.offers, comparing, clock)
        self._waiting = Waiting()
        self._look_again_at = float("inf")

    def next_at(self) -> float:
        """When a job that waits may have more luck, with nothing to tell of it."""
        return min(self._cooling.opens_at(), self._look_again_at)

    async def offers(self, view: JobView) -> list[Offer]:
        """What there is for the job now."""
        found = await self._quotes.offers(view.spec.resources)
        return [offer for offer in found if self._visible(offer.backend, view.organisation)]

    async def run(self, views: Sequence[JobView], ready: Sequence[JobView], guard: Guard) -> list[JobView]:
        """Place what can be placed among `ready`; `views` are all live jobs. Returns the jobs that changed."""
        now_ms = self._clock.wall_ms()
        self._cooling.learn(views)
        usual, places = self._usual(), self._places(views)
        now = standing(views, await self._journal.usages(), self._policy, now_ms)
        wanting = {view.id: view for view in ready if wants_a_place(view)}
        promised, full = now.promised(), Full()
        changed = []
        for job in in_turn(self._waiting.of(wanting.values(), now_ms), now):
            view, over_quota = wanting[job.id], now.over_quota(job)
            plan = await places.plan(view, _circumstances(view, usual, places, now_ms, over_quota))
            compared = places.compared(view)
            if has_deadline(view):
                plan = self.deadlines.steer(foretold(view, compared, plan), plan)
            after = await self._settle(view, plan, compared, guard)
            if after is not None:
                changed.append(after)
                now.take(after)
            if plan.choice is not None:
                places.take(plan.choice, view.organisation)
            elif not over_quota:
                full.add(job, view, plan)
                if job.id in promised:
                    places.block({promised[job.id]})
                if is_impatient(view, now_ms, self._policy):
                    places.reserve(plan)
        return changed + await self._make_room(full, now, guard)

    async def _make_room(self, full: Full, now: Standing, guard: Guard) -> list[JobView]:
        """Ask running jobs to save and stop for waiting ones, where the queue's policy says so."""
        self._look_again_at = float("inf")
        if not self._policy.sharing.preempt:
            return []
        rooms = make_room(full, now)
        if rooms.look_again_s is not None:
            self._look_again_at = self._clock.monotonic() + max(0.0, rooms.look_again_s - now.now_s)
        stopped = [await self._write(room.holding.view, room.stop, guard) for room in rooms.made]
        return [view for view in stopped if view is not None]

    async def mind(self, views: Sequence[JobView], running: Sequence[JobView], guard: Guard) -> list[JobView]:
        """Ask those among `running` to move whose deadline, or whose money, wants it. Returns the jobs that changed."""
        now_ms = self._clock.wall_ms()
        usual, places = self._usual(), self._places(views)
        changed = []
        for view in running:
            live = view.live_attempt
            if live is None:
                continue
            # What it pays for now will have ended by then.
            now = replace(_circumstances(view, usual, places, now_ms, ""), paid_wait_reason="")
            reason = self.deadlines.move(view, await places.plan(view, now))
            after = reason and await self._write(
                view, partial(moving, number=live.number, reason=reason), guard
            )
            if after:
                changed.append(after)
        return changed

    async def reconsider(
        self, views: Sequence[JobView], running: Sequence[JobView], guard: Guard
    ) -> list[JobView]:
        """Compare where each of `running` is with where else it could be. Returns the jobs that changed.

        A slot that one of them leaves for, or has left for, is not free for the others.
        """
        now_ms = self._clock.wall_ms()
        usual, places = self._usual(), self._places(views)
        for view in views:
            places.expect(view)
        now = standing(views, await self._journal.usages(), self._policy, now_ms)
        changed = []
        for view in running:
            self.moves.looked(view, found=False)  # what cannot be weighed must not be first again at once
            own_waits = now.over_quota(pool_job(view, now_ms))
            # What it pays for now will have ended by then.
            there = replace(_circumstances(view, usual, places, now_ms, own_waits), paid_wait_reason="")
            after = await self._weigh(view, await places.routed(view, there), guard)
            if after is not None:
                changed.append(after)
                places.expect(after)
        return changed

    async def _weigh(self, view: JobView, plan: Plan, guard: Guard) -> JobView | None:
        live, now_ms, rules = view.live_attempt, self._clock.wall_ms(), self._policy.moving
        read, conditions_at = await self._comparing.read(view), self._comparing.conditions_at
        found = better(view, plan, read, now_ms, self._policy, conditions_at)
        if found is not None:
            self.moves.looked(view, found=True)
        number = live.number if live is not None else 0
        return await self._write(
            view, partial(telling, number=number, found=found, now_ms=now_ms, rules=rules), guard
        )

    def _usual(self) -> JobConstraints:
        return JobConstraints(
            min_run_s=round(self._policy.useful_s + self._policy.stop_allowance_s),
            avoided=self._cooling.avoided(),
            cooldowns=tuple(sorted(self._cooling.closed().items())),
        )

    def _places(self, views: Sequence[JobView]) -> "_Places":
        most = self._policy.paid_attempts
        return _Places(views, self._quotes.offers, self._comparing, self._visible, most)

    async def _settle(
        self, view: JobView, plan: Plan, compared: Compared | None, guard: Guard
    ) -> JobView | None:
        """Write the intent, or why the job waits; nothing when neither is new."""
        if plan.choice is None:
            return await self._write(view, lambda fresh: _stuck(fresh, plan), guard)
        offer = plan.choice
        try:
            resume, rejected = await self._resume_point(view)
        except Exception as error:  # noqa: BLE001  a store that cannot read one checkpoint must not stop the queue
            reason = f"its checkpoint cannot be read now: {error}"
            return await self._write(view, lambda fresh: _waiting(fresh, reason), guard)

        told = [await self._comparing.kept(view, compared, offer)] if compared is not None else []

        def launch(fresh: JobView) -> list[Event]:
            if not wants_a_place(fresh) or len(fresh.attempts) != len(view.attempts):
                return []
            return [*rejected, *told, self._intent(fresh, offer, resume)]

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


def _circumstances(
    view: JobView, usual: JobConstraints, places: "_Places", now_ms: int, own_waits: str
) -> JobConstraints:
    return replace(
        usual,
        resumable=has_resume_path(view.spec) or bool(view.checkpoints or view.past_checkpoints),
        budget_left_microusd=left_microusd(view, now_ms),
        preferred_backend=view.migrate_to,
        preferred_offer=target.place if (target := headed_for(view)) else None,
        paid_wait_reason=places.paid_waits(view.organisation),
        own_wait_reason=own_waits,
    )


class _Places:
    """What is left of the offers during one pass. Jobs that ask for the same are planned once."""

    def __init__(
        self,
        views: Sequence[JobView],
        ask: Callable[[Resources], Awaitable[list[Offer]]],
        comparing: Comparing,
        visible: Visible,
        paid_attempts: int,
    ) -> None:
        self._ask = ask
        self._comparing = comparing
        self._compared: dict[object, Compared] = {}
        self._visible = visible
        self._paid_attempts = paid_attempts
        self._paid = _paid_in_flight(views)
        self._taken = _intents(views)
        self._blocked: set[Place] = set()
        self._offers: dict[Resources, list[Offer]] = {}
        self._plans: dict[object, Plan] = {}

    async def plan(self, view: JobView, now: JobConstraints) -> Plan:
        plan = await self.routed(view, now)
        if not is_a_choice(view.spec, [each.offer for each in plan.ranked if not each.rejection]):
            return plan
        return await self._best(view, now, _same(view, now))

    async def routed(self, view: JobView, now: JobConstraints) -> Plan:
        """What fits and what is free, without comparing whole bills."""
        key = _same(view, now)
        if key not in self._plans:
            self._plans[key] = make_plan(view.spec, await self._left_for(view), now)
        return self._plans[key]

    async def _left_for(self, view: JobView) -> list[Offer]:
        need = view.spec.resources
        if need not in self._offers:
            self._offers[need] = await self._ask(need)
        seen = [offer for offer in self._offers[need] if self._visible(offer.backend, view.organisation)]
        return [_left(offer, self._taken, self._blocked) for offer in seen]

    async def _best(self, view: JobView, now: JobConstraints, key: object) -> Plan:
        """By whole bills. Jobs that are the same work are compared once, however many there are."""
        work = key, work_key(view), bool(view.attempts)
        plan = self._plans.get(work)
        if plan is not None:
            return plan
        offers, same = await self._left_for(view), (view.organisation, work_key(view))
        if same not in self._compared:
            self._compared[same] = await self._comparing.compare(view, offers)
        plan = self._plans[work] = make_plan(
            view.spec, offers, now, self._compared[same].worth(begun=bool(view.attempts))
        )
        return plan

    def compared(self, view: JobView) -> Compared | None:
        """The comparison its plan came from, where there was something to compare."""
        return self._compared.get((view.organisation, work_key(view)))

    def paid_waits(self, organisation: str) -> str:
        """Launches count from their intent on, machines until they are confirmed gone."""
        if self._paid[organisation] < self._paid_attempts:
            return ""
        return f"{self._paid_attempts} paid attempts of {organisation} are in flight, as many as may be at a time"

    def take(self, offer: Offer, organisation: str) -> None:
        self._taken[offer.place] = self._taken.get(offer.place, 0) + 1
        self._paid[organisation] += offer.paid
        self._plans.clear()

    def expect(self, view: JobView) -> None:
        """What a job is headed for is as good as taken."""
        target = headed_for(view)
        if target is not None:
            self.take(target, view.organisation)

    def reserve(self, plan: Plan) -> None:
        """Nobody behind the job that waits for these slots may have them."""
        self.block({ranked.offer.place for ranked in plan.ranked if ranked.wait_reason and ranked.full})

    def block(self, places: set[Place]) -> None:
        """Nobody behind the job for which room is being made there may have it."""
        if not places <= self._blocked:
            self._blocked |= places
            self._plans.clear()


def _same(view: JobView, now: JobConstraints) -> object:
    """The same for jobs between which a plan makes no difference."""
    spec = view.spec
    return view.organisation, spec.resources, spec.placement, spec.image, now


def _stuck(view: JobView, plan: Plan) -> list[Event]:
    """Why it waits; or its end, when what is left of its budget pays for nothing any more."""
    all_released = all(attempt.released for attempt in view.attempts)
    if view.cost_microusd and all_released and plan.beyond_budget and wants_a_place(view):
        return [JobFailed(failure=budget_failure(view, view.cost_microusd))]
    newest = view.attempt
    made_room = newest.stop_message if newest is not None and newest.makes_room_for else ""
    return _waiting(view, f"{made_room}: {plan.reason}" if made_room else plan.reason)


def _waiting(view: JobView, reason: str) -> list[Event]:
    known = view.reason == reason
    return [] if known or not wants_a_place(view) else [JobWaited(reason=reason)]


def _intents(views: Sequence[JobView]) -> dict[Place, int]:
    """Attempts that were promised a place and do not show in their backend's offers yet."""
    taken: dict[Place, int] = {}
    for view in views:
        live = view.live_attempt
        if live is not None and live.handle is None and live.claimant is None:
            taken[live.offer.place] = taken.get(live.offer.place, 0) + 1
    return taken


def _paid_in_flight(views: Sequence[JobView]) -> Counter[str]:
    """By organisation: what costs, may cost, or is not known to have ended."""
    return Counter(v.organisation for v in views for a in v.attempts if a.offer.paid and not a.released)


def _left(offer: Offer, taken: Mapping[Place, int], blocked: set[Place]) -> Offer:
    if offer.free is None:
        return offer
    left = 0 if offer.place in blocked else max(0, offer.free - taken.get(offer.place, 0))
    if left or offer.wait_reason:
        return replace(offer, free=left)
    return replace(offer, free=0, wait_reason=f"all slots of {offer.backend} are taken")
