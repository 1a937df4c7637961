"""Bugs that other schedulers published, told as histories of ours. Each is played many times over."""

from collections.abc import Iterator
from dataclasses import replace

from anygpu.testing.simulation.agents.training import SimScript
from anygpu.testing.simulation.crashes import CrashPoint
from anygpu.testing.simulation.faults import Fault
from anygpu.testing.simulation.scenario import Scenario, ScenarioBackend, SimJob

SPOT = ScenarioBackend(name="spot", price=300_000, interruptible=True, idempotent=False, lease_s=45)
CLOUD = ScenarioBackend(name="cloud", price=1_000_000, idempotent=False, minimum_s=60)
NAMED = ScenarioBackend(name="named", price=1_000_000, idempotent=True)
QUICK = SimScript(steps=4, step_s=3.0, save_every=1)
WRITES = 24


def _scenario(
    name: str, number: int, *places: ScenarioBackend, rates: dict[Fault, float], **job: object
) -> Scenario:
    asked = SimJob(**{"at": 1.0, "key": "one", "script": QUICK, "resumable": True, **job})  # type: ignore[arg-type]
    return Scenario(
        seed=f"{name} {number}", jobs=(asked,), backends=places or (SPOT,), rates=rates, faults_until=90.0
    )


def cancelled_during_recovery() -> Iterator[Scenario]:
    """SkyPilot #4410: a job cancelled while it was being recovered left a machine behind."""
    for number in range(20):
        rates = {Fault.PREEMPTED_0: 0.6, Fault.NO_CAPACITY: 0.6}
        yield _scenario("skypilot 4410", number, SPOT, CLOUD, rates=rates, cancel_at=6.0 + number)


def preempted_while_relaunching() -> Iterator[Scenario]:
    """SkyPilot #1802: a machine taken back while it was being replaced made two."""
    for number in range(15):
        yield _scenario("skypilot 1802", number, rates={Fault.PREEMPTED_0: 0.7, Fault.LAUNCH_TIMED_OUT: 0.4})


def restarted_while_launching() -> Iterator[Scenario]:
    """Airflow #35676: a scheduler that was restarted launched what it had launched already."""
    for place in (NAMED, CLOUD):
        for write in range(1, WRITES):
            crash = CrashPoint(write, before=bool(write % 2))
            yield replace(_scenario(f"airflow 35676 {place.name}", write, place, rates={}), crash=crash)


def status_calls_fail() -> Iterator[Scenario]:
    """SkyPilot #10155: 25 failed status calls in a row restarted a healthy job, again and again."""
    script = SimScript(steps=30, step_s=10.0, save_every=5)
    for number in range(3):
        scenario = _scenario("skypilot 10155", number, CLOUD, rates={Fault.PROBE_FAILED: 1.0}, script=script)
        yield replace(scenario, faults_until=330.0)


def recovered_before_it_was_created() -> Iterator[Scenario]:
    """Ray #34223: a recovery took a job that had not been created yet for one that had failed."""
    for write in range(1, WRITES):
        scenario = _scenario("ray 34223", write, CLOUD, rates={Fault.LAUNCH_LOST: 0.5})
        yield replace(scenario, crash=CrashPoint(write, before=True))


def timed_out_after_success_while_lists_lag() -> Iterator[Scenario]:
    """A launch that worked but timed out, and a list that does not show it yet: the next call makes a twin."""
    for number in range(20):
        rates = {Fault.LAUNCH_TIMED_OUT: 0.7, Fault.LISTING_LAG: 0.9, Fault.BOOT_STUCK: 0.5}
        yield _scenario("timeout after success", number, CLOUD, rates=rates)
