"""One history, as planned before it begins: who submits what when, how many processes, and the weather."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from anygpu.control.policy import Policy
from anygpu.control.sharing import Sharing
from anygpu.plan.moving import Moving
from anygpu.spec.load import from_mapping
from anygpu.spec.model import JobSpec
from anygpu.testing.faults import Fault, weather
from anygpu.testing.mortal import Crash
from anygpu.testing.sim_training import Script

# The product's numbers, some scaled down so that a history needs fewer steps. Their order is the same.
POLICY = Policy(
    lease_s=30,
    grace_s=5,
    heartbeat_s=8,
    report_every_s=1,
    telemetry_every_s=60,
    probe_every_s=10,
    hurry_s=3,
    probes_before_lost=3,
    claim_limit_s=120,
    cancel_limit_s=30,
    stop_limit_s=90,
    absence_s=40,
    launch_tries=4,
    retry_base_s=1,
    retry_most_s=20,
    patience_s=120,
    sharing=Sharing(bands_slot_s=(30.0, 90.0), runs_at_least_s=20, starved_s=240),
    leader_ttl_s=15,
    poll_s=10,
    sweep_every_s=30,
    sweep_grace_s=20,
    cool_base_s=2,
    cool_most_s=20,
    paid_attempts=2,
    useful_s=15,
    stop_allowance_s=40,
    end_allowance_s=20,
    handover_s=30,
    spot_tick_s=60,
    meter_every_s=15,
    meter_for_s=300,
    moving=Moving(least_microusd=20_000, least_s=60, apart_s=180, every_s=40),
)
FAULTS_UNTIL_S = 400.0
PATIENT = "patient"
BUDGETS = (30_000, 50_000, 90_000)  # micro-dollars: some minutes of what places cost here
CROWD = 15
ON_TIME_S = 60.0  # what on-demand that answers needs beside the work: placing, booting, reporting
SPOT_WEATHER = {
    Fault.PREEMPTED_0: 0.08,
    Fault.PREEMPTED_30: 0.08,
    Fault.PREEMPTED_120: 0.08,
    Fault.NO_CAPACITY: 0.5,
    Fault.BOOT_STUCK: 0.1,
    Fault.SETUP_FAILED: 0.1,
    Fault.MACHINE_DIED: 0.02,
    Fault.PRICE_CHANGED: 0.02,
    Fault.WAKE_LOST: 0.3,
    Fault.KILLED_BEFORE_WRITE: 0.002,
    Fault.KILLED_AFTER_WRITE: 0.002,
}
SETTLE_S = 1200.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One job somebody submits."""

    at: float
    script: Script = field(default_factory=Script)
    key: str | None = None
    again_at: float | None = None  # submitted a second time, with the same key
    cancel_at: float | None = None
    priority: int = 0
    units: int = 1
    keep: int = 3
    timeout_s: float | None = None
    resumable: bool = False  # says how it resumes, so that it may run where it can be interrupted
    max_cost: int | None = None  # micro-dollars
    hold_s: float = 0  # keep the machine of a failed script this long
    release_at: float | None = None  # and let it go before that
    migrate_at: float | None = None
    migrate_to: str = ""
    fallbacks: tuple[str, ...] = ()
    project: str = "vision"
    deadline_s: float | None = None  # from its submission
    expected_s: float | None = None  # how long it says that it trains

    def spec(self) -> JobSpec:
        fields: dict[str, Any] = {
            "command": ["train"],
            "env": self.script.env(),
            "priority": self.priority,
            "resources": {"cpus": self.units},
            "checkpoint": {
                "keep": self.keep,
                "paths": ["ckpt/*.pt"] if self.resumable else [],
                "every_s": self.script.save_every * self.script.step_s,
            },
            "limits": {
                "timeout_s": self.timeout_s,
                "max_retries": 3,
                "max_cost_microusd": self.max_cost,
                "deadline_s": self.deadline_s,
            },
            "placement": {
                "hold_on_failure_s": self.hold_s or None,
                "fallbacks": self.fallbacks,
                "expected_duration_s": self.expected_s,
            },
        }
        return from_mapping(fields | ({"idempotency_key": self.key} if self.key else {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A backend of the world."""

    name: str
    price: int
    capacity: int | None = None
    idempotent: bool = True
    dead: bool = False  # never answers: what lies elsewhere must go on
    interruptible: bool = False
    step_s: int = 1  # how it counts what it charges
    minimum_s: int = 0
    quota: int | None = None
    max_run_s: float | None = None
    lease_s: float = 0
    opens_at: float = 0  # offers nothing before
    steady: bool = False  # whatever happens elsewhere, it starts what it is asked to and takes nothing back


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    seed: str
    jobs: tuple[Asked, ...]
    places: tuple[Place, ...] = (Place(name="box", price=0, capacity=2),)
    processes: int = 1
    latency_s: float = 0.0
    rates: Mapping[Fault, float] = field(default_factory=dict)
    faults_until: float = FAULTS_UNTIL_S
    crash: Crash | None = None  # of the first process, in scripted histories
    policy: Policy = POLICY


def seeded(seed: int) -> Scenario:
    """The history a seed stands for."""
    chance = random.Random(f"projects:{seed}")
    if chance.random() < 0.08:
        return _shared(chance, str(seed))
    moving = random.Random(f"better:{seed}")
    chance = random.Random(f"deadline:{seed}")
    if chance.random() < 0.08:
        return _timed(seed, chance)
    if moving.random() < 0.06:
        return _moved(moving, str(seed))
    scenario = _of_one_project(seed)
    jobs = tuple(_timed_too(asked, chance) if chance.random() < 0.2 else asked for asked in scenario.jobs)
    return replace(scenario, jobs=jobs)


def _shared(chance: random.Random, seed: str) -> Scenario:
    """Two projects and too few slots: long jobs of one make room for those of the other, in all weathers."""
    box = Place(name="box", price=0, capacity=chance.choice([1, 2]), idempotent=chance.random() < 0.5)
    quotas = chance.choice([{}, {}, {"speech": 1}, {"vision": 1, "speech": 1}])
    sharing = replace(POLICY.sharing, quotas=quotas, may_borrow=chance.random() < 0.5)
    return Scenario(
        seed=seed,
        jobs=tuple(_sharer(chance, number) for number in range(chance.choice([3, 4, 5]))),
        places=(box,),
        processes=chance.choice([1, 1, 2]),
        latency_s=chance.choice([0.0, 0.05, 0.6]),
        rates=weather(chance) if chance.random() < 0.6 else {},
        policy=replace(POLICY, sharing=sharing),
    )


def _sharer(chance: random.Random, number: int) -> Asked:
    long = number == 0 or chance.random() < 0.4
    at = number * chance.uniform(20, 60)
    return Asked(
        at=at,
        script=Script(steps=8 if long else 2, step_s=chance.choice([6.0, 15.0]), save_every=1),
        key=f"key-{number}",
        project="vision" if number == 0 else chance.choice(["vision", "speech", "speech"]),
        priority=chance.choice([0, 0, 0, 1]),
        resumable=chance.random() < 0.8,
        cancel_at=at + chance.uniform(0, 200) if chance.random() < 0.1 else None,
    )


def _moved(chance: random.Random, seed: str) -> Scenario:
    """Long jobs on machines that cost, and better places that open while they run; some jobs never save."""
    dear = Place(name="dear", price=3_000_000, idempotent=chance.random() < 0.5)
    cheap = Place(
        name="cheap",
        price=chance.choice([600_000, 1_500_000]),
        opens_at=chance.uniform(50, 300),
        minimum_s=chance.choice([0, 60]),
        quota=chance.choice([None, None, 0]),
    )
    spot = Place(name="spot", price=300_000, interruptible=True, opens_at=chance.uniform(100, 700))
    box = Place(name="box", price=0, capacity=8, opens_at=chance.uniform(200, 700))
    return Scenario(
        seed=seed,
        jobs=tuple(_mover(chance, number) for number in range(chance.choice([1, 1, 2]))),
        places=chance.choice([(dear, cheap), (dear, cheap, spot), (dear, cheap, spot, box), (dear, box)]),
        processes=chance.choice([1, 1, 2]),
        latency_s=chance.choice([0.0, 0.05]),
        rates={fault: rate / 10 for fault, rate in weather(chance).items()} if chance.random() < 0.6 else {},
        faults_until=1200.0,
        policy=replace(POLICY, moving=replace(POLICY.moving, mode=chance.choice(["act", "act", "advise"]))),
    )


def _mover(chance: random.Random, number: int) -> Asked:
    steps = chance.choice([60, 120, 160])
    at = number * chance.uniform(20, 60)
    return Asked(
        at=at,
        script=Script(
            steps=steps,
            step_s=6.0,
            save_every=chance.choice([1, 3, 3, steps + 1]),
            tells=True,
        ),
        key=f"key-{number}",
        resumable=True,
        max_cost=2_000_000 if chance.random() < 0.3 else None,
        cancel_at=at + chance.uniform(200, 1000) if chance.random() < 0.1 else None,
    )


def _of_one_project(seed: int) -> Scenario:
    chance = random.Random(f"scenario:{seed}")
    crowded = chance.random() < 0.04
    places = (Place(name="box", price=0, capacity=2),) if crowded else _places(chance)
    asked = [_asked(chance, n, places) for n in range(chance.choice([1, 2, 2, 3]))]
    scenario = Scenario(
        seed=str(seed),
        jobs=_crowd(chance) if crowded else tuple(asked),
        places=places,
        processes=chance.choice([1, 1, 2]),
        latency_s=chance.choice([0.0, 0.05, 0.6]),
        rates={} if crowded else weather(chance),
        policy=_hurried(POLICY) if crowded else POLICY,
    )
    contested = not crowded and scenario.processes > 1 and seed % 2
    return _contested(scenario) if contested else scenario


def _contested(scenario: Scenario) -> Scenario:
    """The one that leads often stands still, until the other has taken over and it has not noticed yet."""
    return replace(scenario, rates={**scenario.rates, Fault.STALLED: 0.06})


def _hurried(policy: Policy) -> Policy:
    return replace(policy, patience_s=60, sharing=replace(policy.sharing, starved_s=120))


def _timed_too(asked: Asked, chance: random.Random) -> Asked:
    """With a deadline, which nobody can promise to keep where everything may fail."""
    work_s = asked.script.steps * asked.script.step_s
    return replace(asked, deadline_s=work_s * chance.uniform(1, 4) + 60, expected_s=work_s)


def _timed(seed: int, chance: random.Random) -> Scenario:
    """Spot that comes and goes beside on-demand that is always there, and a deadline that on-demand can meet."""
    spot = Place(name="spot", price=300_000, interruptible=True, idempotent=chance.random() < 0.5)
    other = Place(name="other", price=250_000, interruptible=True, quota=chance.choice([None, 0]))
    cloud = Place(name="cloud", price=1_000_000, steady=True)
    script = Script(
        steps=chance.randint(10, 40), step_s=chance.choice([10.0, 30.0]), save_every=chance.randint(1, 4)
    )
    work_s = script.steps * script.step_s
    asked = Asked(
        at=chance.uniform(0, 30),
        script=script,
        key="timed",
        resumable=True,
        expected_s=work_s,
        deadline_s=work_s * chance.choice([1.0, 1.1, 1.5, 2.0]) + chance.choice([ON_TIME_S, 240, 480, 1200]),
    )
    return Scenario(
        seed=str(seed),
        jobs=(asked,),
        places=chance.choice([(spot, cloud), (spot, other, cloud)]),
        processes=chance.choice([1, 2]),
        rates={fault: rate * chance.uniform(0.3, 2) for fault, rate in SPOT_WEATHER.items()},
        faults_until=3000.0,
    )


def _asked(chance: random.Random, number: int, places: tuple[Place, ...]) -> Asked:
    at = chance.uniform(0, 120)
    script = _script(chance)
    max_cost = chance.choice(BUDGETS) if chance.random() < 0.25 else None
    paid = all(place.price for place in places)  # a budget ends only what costs
    if max_cost and paid and chance.random() < 0.6:
        script, max_cost = replace(script, ends=False, fails_at=0), BUDGETS[0]
    keyed = not script.ends or chance.random() < 0.7
    lasts = not script.ends and not (paid and max_cost == BUDGETS[0])
    cancelled = lasts or chance.random() < 0.25
    return Asked(
        at=at,
        script=script,
        key=f"key-{number}" if keyed else None,
        again_at=at + chance.choice([0.0, 0.1, 20, 200]) if keyed and chance.random() < 0.4 else None,
        cancel_at=at + chance.choice([0.0, chance.uniform(0, 20), chance.uniform(0, 200)])
        if cancelled
        else None,
        units=chance.choice([1, 1, 1, 2]),
        keep=chance.choice([1, 1, 2, 3]),
        timeout_s=60.0 if chance.random() < 0.1 else None,
        max_cost=max_cost,
        resumable=all(place.interruptible for place in places) or chance.random() < 0.6,
        hold_s=60.0 if chance.random() < 0.3 else 0.0,
        release_at=at + chance.uniform(20, 200) if chance.random() < 0.3 else None,
        migrate_at=at + chance.uniform(5, 120) if chance.random() < 0.15 else None,
        migrate_to=chance.choice(places).name,
    )


def _script(chance: random.Random) -> Script:
    steps = chance.randint(2, 8)
    return Script(
        steps=steps,
        step_s=chance.choice([2.0, 6.0, 15.0]),
        save_every=chance.randint(1, 3),
        fails_at=chance.randint(1, steps) if chance.random() < 0.12 else 0,
        killed_at=chance.randint(1, steps) if chance.random() < 0.12 else 0,
        ends=chance.random() > 0.08,
    )


def _places(chance: random.Random) -> tuple[Place, ...]:
    box = Place(name="box", price=0, capacity=chance.choice([2, 3]), idempotent=chance.random() < 0.5)
    cloud = Place(
        name="cloud",
        price=1_000_000,
        idempotent=chance.random() < 0.3,
        minimum_s=chance.choice([0, 60]),
        quota=chance.choice([None, None, 2]),
        lease_s=chance.choice([0, 45]),
    )
    spot = Place(
        name="spot",
        price=300_000,
        interruptible=True,
        step_s=chance.choice([1, 60]),
        max_run_s=chance.choice([None, 90, 150]),
        idempotent=chance.random() < 0.3,
    )
    gone = Place(name="gone", price=1_000_000, dead=True)
    return chance.choice(
        [
            (box,),
            (cloud,),
            (box, cloud),
            (cloud, box),
            (cloud,),
            (gone, box),
            (cloud, spot),
            (spot, cloud),
            (spot,),
        ]
    )


def _crowd(chance: random.Random) -> tuple[Asked, ...]:
    """A full house: one patient job that is large or unimportant, and others that keep coming."""
    script = Script(steps=2, step_s=chance.choice([15.0, 20.0]), save_every=2)
    large = chance.random() < 0.5
    patient = Asked(at=30.0, script=script, units=2 if large else 1, priority=0 if large else -1, key=PATIENT)
    every_s = script.step_s + 5
    others = [Asked(at=n * every_s, script=script, key=f"other-{n}") for n in range(CROWD)]
    return (patient, *others)
