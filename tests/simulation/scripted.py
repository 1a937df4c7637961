"""Short histories told on purpose; each is played again with a crash at every write of its control process."""

from dataclasses import replace

from anygpu.control.policy import SharingPolicy
from anygpu.testing.simulation.agents.training import SimScript
from anygpu.testing.simulation.faults import Fault
from anygpu.testing.simulation.scenario import POLICY, Scenario, ScenarioBackend, SimJob

QUICK = SimScript(steps=2, step_s=3.0, save_every=1)
BOX = ScenarioBackend(name="box", price=0, capacity=2)
FAR = ScenarioBackend(name="far", price=0, capacity=2, relayed=True, lease_s=60)
CLOUD = ScenarioBackend(name="cloud", price=1_000_000, idempotent=False)


def _scenario(name: str, *jobs: SimJob, rates: dict[Fault, float] | None = None, **more: object) -> Scenario:
    fields: dict[str, object] = {"backends": (BOX,), "faults_until": 90.0, **more}
    return Scenario(seed=name, jobs=jobs, rates=rates or {}, **fields)  # type: ignore[arg-type]


def _job(script: SimScript = QUICK, **more: object) -> SimJob:
    return SimJob(**{"at": 1.0, "key": "one", "script": script, **more})  # type: ignore[arg-type]


SCRIPTED = [
    _scenario("completes", _job()),
    _scenario("completes on a place that forgets names", _job(), backends=(CLOUD,)),
    _scenario("is submitted twice", _job(again_at=1.0)),
    _scenario("fails by its own fault", _job(SimScript(steps=2, step_s=3.0, save_every=1, fails_at=2))),
    _scenario("is killed and resumes", _job(SimScript(steps=3, step_s=3.0, save_every=1, killed_at=2))),
    _scenario("runs out of time", _job(SimScript(steps=2, step_s=3.0, save_every=1, ends=False), timeout_s=8.0)),
    _scenario("is cancelled at once", _job(cancel_at=1.0)),
    _scenario("is cancelled while its machine boots", _job(cancel_at=3.0)),
    _scenario("is cancelled while it trains", _job(SimScript(steps=9, step_s=3.0, save_every=2), cancel_at=20.0)),
    _scenario("two jobs share the box", _job(), _job(key="two", at=2.0)),
    _scenario("the second waits for the first", _job(units=2), _job(key="two", at=2.0, units=2)),
    _scenario("its launch times out", _job(), rates={Fault.LAUNCH_TIMED_OUT: 0.6}),
    _scenario("its launch leaves a twin", _job(), rates={Fault.LAUNCH_LATE: 0.6}, backends=(CLOUD,)),
    _scenario("its machine is not listed at first", _job(), rates={Fault.LISTING_LAG: 1.0}),
    _scenario("there is no capacity at first", _job(), rates={Fault.NO_CAPACITY: 0.95}),
    _scenario("its machine is taken back", _job(), rates={Fault.PREEMPTED_0: 0.5}),
    _scenario("its machine is taken back with notice", _job(), rates={Fault.PREEMPTED_30: 0.6}),
    _scenario("its machine dies silently", _job(), rates={Fault.MACHINE_DIED: 0.6}),
    _scenario("terminating is lost", _job(), rates={Fault.TERMINATE_LOST: 0.7}),
    _scenario("answers get lost while another process stands by", _job(), rates={Fault.RESPONSE_DROPPED: 0.4},
              processes=2),
    _scenario("completes behind a relay", _job(), backends=(FAR,)),
    _scenario("is killed and resumes behind a relay with old messages",
              _job(SimScript(steps=3, step_s=3.0, save_every=1, killed_at=2)), backends=(FAR,),
              rates={Fault.RELAY_LISTING_STALE: 0.3, Fault.RELAY_READ_STALE: 0.3, Fault.RELAY_MESSAGE_LATE: 0.3}),
    _scenario("makes room for another project's", _job(SimScript(steps=7, step_s=3.0, save_every=2), resumable=True),
              _job(key="two", at=12.0, project="speech"), backends=(ScenarioBackend(name="box", price=0, capacity=1),),
              policy=replace(POLICY, sharing=SharingPolicy(bands_slot_s=(12.0,), min_run_s=6))),
]  # fmt: skip
