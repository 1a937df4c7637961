"""The scenario of one simulated history: jobs, backends, control processes and fault rates."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from anygpu.control.policy import ControlPolicy, SharingPolicy
from anygpu.plan.offers.migration import MigrationPolicy
from anygpu.spec.jobspec import JobSpec
from anygpu.spec.load import from_mapping
from anygpu.testing.simulation.agents.training import SimScript
from anygpu.testing.simulation.crashes import CrashPoint
from anygpu.testing.simulation.faults import RELAY_RATES, Fault, random_rates

# The product's default policy, partly with shorter times, so that a history needs fewer steps.
POLICY = ControlPolicy(
    lease_s=30,
    grace_s=5,
    heartbeat_s=8,
    report_every_s=1,
    telemetry_every_s=60,
    probe_every_s=10,
    retry_interval_s=3,
    probes_before_lost=3,
    claim_limit_s=120,
    cancel_limit_s=30,
    stop_limit_s=90,
    absence_s=40,
    max_launch_tries=4,
    retry_base_s=1,
    retry_max_s=20,
    reserve_after_s=120,
    sharing=SharingPolicy(bands_slot_s=(30.0, 90.0), min_run_s=20, starvation_s=240),
    leader_ttl_s=15,
    poll_s=10,
    sweep_every_s=30,
    sweep_grace_s=20,
    damaged_grace_s=90,
    cooldown_base_s=2,
    cooldown_max_s=20,
    max_paid_attempts=2,
    min_useful_s=15,
    stop_allowance_s=40,
    end_allowance_s=20,
    handover_s=30,
    spot_check_every_s=60,
    meter_every_s=15,
    meter_for_s=300,
    migration=MigrationPolicy(
        min_saving_microusd=20_000, min_saving_s=60, min_interval_s=180, check_every_s=40
    ),
)
FAULTS_UNTIL_S = 400.0
PATIENT_KEY = "patient"
BUDGETS = (30_000, 50_000, 90_000)  # micro-dollars: the cost of some minutes
CROWD_SIZE = 15
ON_DEMAND_OVERHEAD_S = 60.0  # time besides training: scheduling, boot, reports
SPOT_RATES = {
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
class SimJob:
    """A job that a client submits, and the client's later requests."""

    at: float
    script: SimScript = field(default_factory=SimScript)
    key: str | None = None
    again_at: float | None = None  # when the job is submitted again with the same key
    cancel_at: float | None = None
    priority: int = 0
    units: int = 1
    keep: int = 3
    timeout_s: float | None = None
    resumable: bool = False  # says how it resumes, so that it may run on interruptible machines
    saves_only: bool = False  # names its checkpoint files, but not how it resumes
    consents: bool = False  # may run on interruptible machines whether it resumes or not
    paid: bool | None = True  # whether it may use paid machines; None: not said
    max_cost: int | None = None  # micro-dollars
    hold_s: float = 0  # hold the machine of a failed script for this time
    release_at: float | None = None  # release the held machine then
    migrate_at: float | None = None
    migrate_to: str = ""
    fallbacks: tuple[str, ...] = ()
    project: str = "vision"
    deadline_s: float | None = None  # deadline in seconds after submission
    expected_s: float | None = None  # expected training time
    nodes: int = 1

    def spec(self) -> JobSpec:
        fields: dict[str, Any] = {
            "command": ["train"],
            "env": self.script.env(),
            "priority": self.priority,
            "resources": {"cpus": self.units, "nodes": self.nodes},
            "checkpoint": {
                "keep": self.keep,
                "paths": ["ckpt/*.pt"] if self.resumable or self.saves_only else [],
                "resume_args": ["--resume", "{path}"] if self.resumable else [],
                "every_s": self.script.save_every * self.script.step_s,
            },
            "limits": {
                "timeout_s": self.timeout_s,
                "max_retries": 3,
                "max_cost_microusd": self.max_cost,
                "deadline_s": self.deadline_s,
            },
            "placement": {
                "interruptible": "yes" if self.consents else "auto",
                "hold_on_failure_s": self.hold_s or None,
                "fallbacks": self.fallbacks,
                "paid": self.paid,
                "expected_duration_s": self.expected_s,
            },
        }
        return from_mapping(fields | ({"idempotency_key": self.key} if self.key else {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioBackend:
    """The properties of a backend in a scenario."""

    name: str
    price: int
    capacity: int | None = None
    idempotent: bool = True
    dead: bool = False  # never answers; other backends must keep working
    interruptible: bool = False
    step_s: int = 1  # billing step
    minimum_s: int = 0
    quota: int | None = None
    max_run_s: float | None = None
    lease_s: float = 0
    opens_at: float = 0  # no offers before this time
    outages: tuple[tuple[float, float], ...] = ()  # from and until when it cannot be reached
    steady: bool = False  # reliable: no faults on this backend
    queues: bool = False  # an engine with its own queue, which may start a preempted job again
    max_nodes: int = 1
    relayed: bool = False  # its agents reach the server only through mailboxes


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    seed: str
    jobs: tuple[SimJob, ...]
    backends: tuple[ScenarioBackend, ...] = (ScenarioBackend(name="box", price=0, capacity=2),)
    processes: int = 1
    latency_s: float = 0.0
    rates: Mapping[Fault, float] = field(default_factory=dict)
    faults_until: float = FAULTS_UNTIL_S
    crash: CrashPoint | None = None  # crash of the first control process
    policy: ControlPolicy = POLICY


def scenario_for_seed(seed: int) -> Scenario:
    """Return the scenario for a seed. The same seed always gives the same scenario."""
    if seed % 23 == 5:
        engine = _with_outages(_requeueing_engine(random.Random(f"engine:{seed}"), str(seed)), 0.5)
        return _maybe_behind_relay(engine, 0.4)
    gangs = random.Random(f"gangs:{seed}")
    if gangs.random() < 0.05:
        return _maybe_behind_relay(gang_scenario(gangs, str(seed)), 0.3)
    rng = random.Random(f"projects:{seed}")
    if rng.random() < 0.08:
        return _two_projects(rng, str(seed))
    moving = random.Random(f"better:{seed}")
    rng = random.Random(f"deadline:{seed}")
    if rng.random() < 0.08:
        return _spot_with_deadline(seed, rng)
    if moving.random() < 0.06:
        return _better_offers(moving, str(seed))
    resuming = random.Random(f"resuming:{seed}")
    if resuming.random() < 0.04:
        return _restarts_on_spot(resuming, str(seed))
    scenario = _with_careful_users(_one_project(seed), random.Random(f"consent:{seed}"))
    jobs = tuple(_with_deadline(job, rng) if rng.random() < 0.2 else job for job in scenario.jobs)
    if resuming.random() < 0.2:
        only_spot = all(backend.interruptible for backend in scenario.backends)
        jobs = tuple(_that_may_restart(job, resuming, only_spot=only_spot) for job in jobs)
    return _maybe_behind_relay(_with_outages(replace(scenario, jobs=jobs), 0.1), 0.12)


def _with_outages(scenario: Scenario, probability: float) -> Scenario:
    """Return the scenario, sometimes with backends that at times cannot be reached: for anything, or for launches."""
    rng = random.Random(f"outages:{scenario.seed}")
    if rng.random() >= probability:
        return scenario
    backends = tuple(
        replace(each, outages=_random_outages(rng, scenario.jobs)) if rng.random() < 0.8 else each
        for each in scenario.backends
    )
    rates = {**scenario.rates, Fault.LAUNCH_NOT_SENT: rng.choice([0.0, 0.5, 0.9])}
    return replace(scenario, backends=backends, rates=rates)


def _random_outages(rng: random.Random, jobs: tuple[SimJob, ...]) -> tuple[tuple[float, float], ...]:
    """Return times when a backend cannot be reached. Often this begins while a job is being launched."""
    launch = rng.choice(jobs).at + rng.uniform(0.2, 1.0)
    begins = [rng.choice([0.0, launch, launch]), rng.uniform(200, 300)]
    return tuple((begin, begin + rng.choice([3.0, 40.0, 90.0])) for begin in begins)


def _maybe_behind_relay(scenario: Scenario, probability: float) -> Scenario:
    """Return the scenario, sometimes with backends whose agents reach the server through a relay, some or all."""
    rng = random.Random(f"relay:{scenario.seed}")
    if rng.random() >= probability:
        return scenario
    share = rng.choice([0.5, 1.0, 1.0])
    backends = tuple(
        replace(each, relayed=True, lease_s=rng.choice([60, 90])) if rng.random() < share else each
        for each in scenario.backends
    )
    faults = {
        fault: rate * rng.uniform(0.3, 1.5) for fault, rate in RELAY_RATES.items() if rng.random() < 0.7
    }
    return replace(scenario, backends=backends, rates={**scenario.rates, **faults})


def _requeueing_engine(rng: random.Random, seed: str) -> Scenario:
    """Return a scenario with a cluster whose engine has a queue, preempts jobs and starts them again."""
    cluster = ScenarioBackend(name="cluster", price=0, queues=True, lease_s=rng.choice([0, 60]))
    jobs = tuple(
        SimJob(
            at=number * rng.uniform(0, 40),
            script=SimScript(steps=rng.randint(4, 14), step_s=10.0, save_every=rng.choice([1, 2])),
            key=f"key-{number}",
            resumable=rng.random() < 0.8,
            cancel_at=rng.uniform(0, 400) if rng.random() < 0.15 else None,
        )
        for number in range(rng.choice([1, 2, 3]))
    )
    rates = random_rates(rng) if rng.random() < 0.5 else {}
    return Scenario(
        seed=seed,
        jobs=jobs,
        backends=(cluster,),
        processes=rng.choice([1, 1, 2]),
        latency_s=rng.choice([0.0, 0.05]),
        rates={**rates, Fault.PREEMPTED_0: 0.05, Fault.PREEMPTED_30: 0.05},
        faults_until=600.0,
    )


def gang_scenario(rng: random.Random, seed: str) -> Scenario:
    """Return a scenario with jobs on several machines, some of which compete for the same machines."""
    box = ScenarioBackend(name="box", price=0, capacity=4, max_nodes=4, idempotent=rng.random() < 0.5)
    cloud = ScenarioBackend(
        name="cloud",
        price=1_000_000,
        max_nodes=4,
        idempotent=rng.random() < 0.5,
        minimum_s=rng.choice([0, 60]),
        quota=rng.choice([None, 4]),
    )
    rates = {fault: rate / 2 for fault, rate in random_rates(rng).items()}
    return Scenario(
        seed=seed,
        jobs=tuple(_gang_job(rng, number) for number in range(rng.choice([2, 3, 4]))),
        backends=rng.choice([(box,), (box,), (cloud,), (box, cloud)]),
        processes=rng.choice([1, 1, 2]),
        latency_s=rng.choice([0.0, 0.05, 0.6]),
        rates={**rates, Fault.MACHINE_DIED: rng.choice([0.0, 0.03])} if rng.random() < 0.75 else {},
    )


def _gang_job(rng: random.Random, number: int) -> SimJob:
    steps = rng.choice([3, 6, 12])
    script = SimScript(
        steps=steps,
        step_s=rng.choice([6.0, 15.0]),
        fails_at=rng.randint(1, 3) if rng.random() < 0.15 else 0,
        killed_at=rng.randint(1, 3) if rng.random() < 0.2 else 0,
    )
    at = rng.uniform(0, 60)
    return SimJob(
        at=at,
        script=replace(script, save_every=1, notices_peers=rng.random() < 0.5),
        key=f"gang-{number}",
        nodes=rng.choice([1, 2, 2, 3, 4]),
        cancel_at=at + rng.uniform(5, 120) if rng.random() < 0.2 else None,
        resumable=rng.random() < 0.8,
        max_cost=rng.choice(BUDGETS) * 4 if rng.random() < 0.2 else None,
    )


def _restarts_on_spot(rng: random.Random, seed: str) -> Scenario:
    """Return a scenario with unreliable spot machines and a job that says how it resumes, but may restart."""
    spots = [
        ScenarioBackend(name=f"spot-{number}", price=300_000 + number, interruptible=True)
        for number in range(4)  # an offer is avoided for a while after a preemption
    ]
    cloud = ScenarioBackend(name="cloud", price=1_000_000, steady=True)
    script = SimScript(steps=rng.randint(8, 20), step_s=10.0, save_every=1, resumes=rng.random() < 0.25)
    job = SimJob(
        at=0.0,
        script=replace(script, reports=rng.random() < 0.8),
        key="restarts",
        resumable=rng.random() < 0.85,
        saves_only=True,
        consents=rng.random() < 0.15,
    )
    return Scenario(
        seed=seed,
        jobs=(job,),
        backends=(*spots, cloud),
        processes=rng.choice([1, 2]),
        rates={
            **SPOT_RATES,
            Fault.PREEMPTED_0: 0.02,
            Fault.PREEMPTED_30: rng.uniform(0.05, 0.2),
            Fault.PREEMPTED_120: 0.02,
            Fault.NO_CAPACITY: 0.1,
        },
        faults_until=900.0,
    )


def _that_may_restart(job: SimJob, rng: random.Random, *, only_spot: bool) -> SimJob:
    """Return the job with a script that may start from the beginning although a checkpoint is restored.

    If there are only interruptible machines, the job must allow them, because it could never start otherwise.
    """
    resumes, reports = rng.random() < 0.3, rng.random() < 0.7
    return replace(
        job,
        script=replace(job.script, resumes=resumes, reports=reports, save_every=1),
        saves_only=rng.random() < 0.5,
        consents=only_spot or rng.random() < 0.2,
    )


def _two_projects(rng: random.Random, seed: str) -> Scenario:
    """Return a scenario in which two projects share a backend that has too little capacity for all jobs.

    Long jobs of one project are preempted for jobs of the other.
    """
    box = ScenarioBackend(name="box", price=0, capacity=rng.choice([1, 2]), idempotent=rng.random() < 0.5)
    quotas = rng.choice([{}, {}, {"speech": 1}, {"vision": 1, "speech": 1}])
    sharing = replace(POLICY.sharing, quotas=quotas, may_borrow=rng.random() < 0.5)
    return Scenario(
        seed=seed,
        jobs=tuple(_project_job(rng, number) for number in range(rng.choice([3, 4, 5]))),
        backends=(box,),
        processes=rng.choice([1, 1, 2]),
        latency_s=rng.choice([0.0, 0.05, 0.6]),
        rates=random_rates(rng) if rng.random() < 0.6 else {},
        policy=replace(POLICY, sharing=sharing),
    )


def _project_job(rng: random.Random, number: int) -> SimJob:
    long = number == 0 or rng.random() < 0.4
    at = number * rng.uniform(20, 60)
    return SimJob(
        at=at,
        script=SimScript(steps=8 if long else 2, step_s=rng.choice([6.0, 15.0]), save_every=1),
        key=f"key-{number}",
        project="vision" if number == 0 else rng.choice(["vision", "speech", "speech"]),
        priority=rng.choice([0, 0, 0, 1]),
        resumable=rng.random() < 0.8,
        cancel_at=at + rng.uniform(0, 200) if rng.random() < 0.1 else None,
    )


def _better_offers(rng: random.Random, seed: str) -> Scenario:
    """Return a scenario of long jobs on paid machines, with better offers that appear while the jobs run.

    Some of the jobs never save a checkpoint.
    """
    dear = ScenarioBackend(name="dear", price=3_000_000, idempotent=rng.random() < 0.5)
    cheap = ScenarioBackend(
        name="cheap",
        price=rng.choice([600_000, 1_500_000]),
        opens_at=rng.uniform(50, 300),
        minimum_s=rng.choice([0, 60]),
        quota=rng.choice([None, None, 0]),
    )
    spot = ScenarioBackend(name="spot", price=300_000, interruptible=True, opens_at=rng.uniform(100, 700))
    box = ScenarioBackend(name="box", price=0, capacity=8, opens_at=rng.uniform(200, 700))
    return Scenario(
        seed=seed,
        jobs=tuple(_long_job(rng, number) for number in range(rng.choice([1, 1, 2]))),
        backends=rng.choice([(dear, cheap), (dear, cheap, spot), (dear, cheap, spot, box), (dear, box)]),
        processes=rng.choice([1, 1, 2]),
        latency_s=rng.choice([0.0, 0.05]),
        rates={fault: rate / 10 for fault, rate in random_rates(rng).items()} if rng.random() < 0.6 else {},
        faults_until=1200.0,
        policy=replace(
            POLICY, migration=replace(POLICY.migration, mode=rng.choice(["act", "act", "advise"]))
        ),
    )


def _long_job(rng: random.Random, number: int) -> SimJob:
    steps = rng.choice([60, 120, 160])
    at = number * rng.uniform(20, 60)
    return SimJob(
        at=at,
        script=SimScript(
            steps=steps,
            step_s=6.0,
            save_every=rng.choice([1, 3, 3, steps + 1]),
            tells=True,
        ),
        key=f"key-{number}",
        resumable=True,
        max_cost=2_000_000 if rng.random() < 0.3 else None,
        cancel_at=at + rng.uniform(200, 1000) if rng.random() < 0.1 else None,
    )


def _one_project(seed: int) -> Scenario:
    rng = random.Random(f"scenario:{seed}")
    crowded = rng.random() < 0.04
    backends = (ScenarioBackend(name="box", price=0, capacity=2),) if crowded else _random_backends(rng)
    jobs = [_random_job(rng, n, backends) for n in range(rng.choice([1, 2, 2, 3]))]
    scenario = Scenario(
        seed=str(seed),
        jobs=_crowd_of_jobs(rng) if crowded else tuple(jobs),
        backends=backends,
        processes=rng.choice([1, 1, 2]),
        latency_s=rng.choice([0.0, 0.05, 0.6]),
        rates={} if crowded else random_rates(rng),
        policy=_with_short_patience(POLICY) if crowded else POLICY,
    )
    contested = not crowded and scenario.processes > 1 and seed % 2
    return _with_stalling_leader(scenario) if contested else scenario


def _with_stalling_leader(scenario: Scenario) -> Scenario:
    """Return the scenario with control processes that often stall.

    While the process with the lease stalls, the other one takes over. The first one must notice this when it continues.
    """
    return replace(scenario, rates={**scenario.rates, Fault.STALLED: 0.06})


def _with_short_patience(policy: ControlPolicy) -> ControlPolicy:
    return replace(policy, reserve_after_s=60, sharing=replace(policy.sharing, starvation_s=120))


def _with_careful_users(scenario: Scenario, rng: random.Random) -> Scenario:
    """Return the scenario with jobs of which some may not use paid machines, if an own machine can run them."""
    if not any(not each.price and not each.dead for each in scenario.backends):
        return scenario
    jobs = tuple(replace(job, paid=rng.choice([True, None, None, False])) for job in scenario.jobs)
    return replace(scenario, jobs=jobs)


def _with_deadline(job: SimJob, rng: random.Random) -> SimJob:
    """Return the job with a deadline.

    Invariant 9 does not check this deadline, because faults may make it impossible to meet.
    """
    work_s = job.script.steps * job.script.step_s
    return replace(job, deadline_s=work_s * rng.uniform(1, 4) + 60, expected_s=work_s)


def _spot_with_deadline(seed: int, rng: random.Random) -> Scenario:
    """Return a scenario with unreliable spot backends and a reliable on-demand backend.

    The job has a deadline that it can meet on on-demand machines alone.
    """
    spot = ScenarioBackend(name="spot", price=300_000, interruptible=True, idempotent=rng.random() < 0.5)
    other = ScenarioBackend(name="other", price=250_000, interruptible=True, quota=rng.choice([None, 0]))
    cloud = ScenarioBackend(name="cloud", price=1_000_000, steady=True)
    script = SimScript(
        steps=rng.randint(10, 40), step_s=rng.choice([10.0, 30.0]), save_every=rng.randint(1, 4)
    )
    work_s = script.steps * script.step_s
    job = SimJob(
        at=rng.uniform(0, 30),
        script=script,
        key="timed",
        resumable=True,
        expected_s=work_s,
        deadline_s=work_s * rng.choice([1.0, 1.1, 1.5, 2.0])
        + rng.choice([ON_DEMAND_OVERHEAD_S, 240, 480, 1200]),
    )
    return Scenario(
        seed=str(seed),
        jobs=(job,),
        backends=rng.choice([(spot, cloud), (spot, other, cloud)]),
        processes=rng.choice([1, 2]),
        rates={fault: rate * rng.uniform(0.3, 2) for fault, rate in SPOT_RATES.items()},
        faults_until=3000.0,
    )


def _random_job(rng: random.Random, number: int, backends: tuple[ScenarioBackend, ...]) -> SimJob:
    at = rng.uniform(0, 120)
    script = _random_script(rng)
    max_cost = rng.choice(BUDGETS) if rng.random() < 0.25 else None
    paid = all(backend.price for backend in backends)  # a budget ends only paid attempts
    if max_cost and paid and rng.random() < 0.6:
        script, max_cost = replace(script, ends=False, fails_at=0), BUDGETS[0]
    keyed = not script.ends or rng.random() < 0.7
    lasts = not script.ends and not (paid and max_cost == BUDGETS[0])
    cancelled = lasts or rng.random() < 0.25
    return SimJob(
        at=at,
        script=script,
        key=f"key-{number}" if keyed else None,
        again_at=at + rng.choice([0.0, 0.1, 20, 200]) if keyed and rng.random() < 0.4 else None,
        cancel_at=at + rng.choice([0.0, rng.uniform(0, 20), rng.uniform(0, 200)]) if cancelled else None,
        units=rng.choice([1, 1, 1, 2]),
        keep=rng.choice([1, 1, 2, 3]),
        timeout_s=60.0 if rng.random() < 0.1 else None,
        max_cost=max_cost,
        resumable=all(backend.interruptible for backend in backends) or rng.random() < 0.6,
        hold_s=60.0 if rng.random() < 0.3 else 0.0,
        release_at=at + rng.uniform(20, 200) if rng.random() < 0.3 else None,
        migrate_at=at + rng.uniform(5, 120) if rng.random() < 0.15 else None,
        migrate_to=rng.choice(backends).name,
    )


def _random_script(rng: random.Random) -> SimScript:
    steps = rng.randint(2, 8)
    return SimScript(
        steps=steps,
        step_s=rng.choice([2.0, 6.0, 15.0]),
        save_every=rng.randint(1, 3),
        fails_at=rng.randint(1, steps) if rng.random() < 0.12 else 0,
        killed_at=rng.randint(1, steps) if rng.random() < 0.12 else 0,
        ends=rng.random() > 0.08,
    )


def _random_backends(rng: random.Random) -> tuple[ScenarioBackend, ...]:
    box = ScenarioBackend(name="box", price=0, capacity=rng.choice([2, 3]), idempotent=rng.random() < 0.5)
    cloud = ScenarioBackend(
        name="cloud",
        price=1_000_000,
        idempotent=rng.random() < 0.3,
        minimum_s=rng.choice([0, 60]),
        quota=rng.choice([None, None, 2]),
        lease_s=rng.choice([0, 45]),
    )
    spot = ScenarioBackend(
        name="spot",
        price=300_000,
        interruptible=True,
        step_s=rng.choice([1, 60]),
        max_run_s=rng.choice([None, 90, 150]),
        idempotent=rng.random() < 0.3,
    )
    gone = ScenarioBackend(name="gone", price=1_000_000, dead=True)
    return rng.choice(
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


def _crowd_of_jobs(rng: random.Random) -> tuple[SimJob, ...]:
    """Return one job that is large or has low priority, and many other jobs that are submitted while it waits."""
    script = SimScript(steps=2, step_s=rng.choice([15.0, 20.0]), save_every=2)
    large = rng.random() < 0.5
    patient = SimJob(
        at=30.0, script=script, units=2 if large else 1, priority=0 if large else -1, key=PATIENT_KEY
    )
    every_s = script.step_s + 5
    others = [SimJob(at=n * every_s, script=script, key=f"other-{n}") for n in range(CROWD_SIZE)]
    return (patient, *others)
