"""The time limit of Slurm: a job moves before it, and continues after Slurm has ended it."""

from collections.abc import Iterator

import pytest
from scripts.clusters.slurm import HIGH, SlurmCluster
from tests.clusters.slurm.product import Product, backend_settings, wait_until

pytestmark = pytest.mark.timeout(300)
# Saves a checkpoint only when it has to stop, and does not end then.
STUBBORN = """
import json, signal, time
from pathlib import Path
import anygpu

steps, waits = 40, {waits}
resume = anygpu.resume_path()
step, weight = json.loads(Path(resume).read_text()) if resume else (0, 10.0)
while step < steps and not anygpu.should_stop():
    time.sleep(0.02)
    step, weight = step + 1, weight * 0.9
    anygpu.log(loss=weight**2, step=step)
    while waits and not resume and step == steps // 2 and not anygpu.should_stop():
        time.sleep(0.02)
Path("state.json").write_text(json.dumps([step, weight]))
if anygpu.should_stop():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(f"saves step {{step}}", flush=True)
    anygpu.checkpoint("state.json", step=step)
    time.sleep(600)
anygpu.artifact("state.json")
"""


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory, cluster: SlurmCluster) -> Iterator[Product]:
    folder = tmp_path_factory.mktemp("limits")
    settings = (
        backend_settings("unlimited", folder, partitions=[HIGH]),
        backend_settings("short", folder, partitions=[HIGH], max_run_s=60),
        backend_settings("limited", folder, partitions=[HIGH], max_run_s=1200),
    )
    made = Product(folder, cluster, "\n".join(settings))
    yield made
    made.server.stop()
    assert "Traceback" not in (log := (folder / "server.log").read_text()), log


def test_a_job_that_is_longer_than_its_time_limit_is_handed_over(product: Product) -> None:
    job = product.submit("short", steps=350)  # 52 seconds of work; the hand-over comes after 45
    whole = product.submit("unlimited", steps=350, step_s=0.01)
    product.server.wait(whole, "completed", within_s=60)
    ended = product.server.wait(job, "completed", "failed", within_s=150)
    assert ended["status"] == "completed", ended["failure"]
    assert set(product.codes(job)) == {"handover"}
    assert product.codes(whole) == []
    assert product.model(job) == product.model(whole)
    product.wait_until_empty()


def submit_stubborn(product: Product, backend: str, *, waits: bool) -> str:
    return product.server.submit(code=STUBBORN.format(waits=waits), placement={"allowed": [backend]})


def test_a_job_that_slurm_ended_at_its_time_limit_continues_from_what_the_signal_saved(
    product: Product,
) -> None:
    whole = submit_stubborn(product, "unlimited", waits=False)
    job = submit_stubborn(product, "limited", waits=True)
    product.server.until(job, lambda each: (each["main_metric"] or {}).get("step") == 20, within_s=60)
    slurm_job = product.slurm_job(job)
    # The server knows of twenty minutes, so it does not hand the job over. Slurm sends the signal and ends the job.
    product.cluster.run("scontrol", "update", f"JobId={slurm_job}", "TimeLimit=1")
    saved = product.wait_for_checkpoint(job)
    assert (saved["attempt"], saved["checkpoint"]["step"]) == (1, 20)
    product.server.wait(whole, "completed", within_s=60)
    product.server.kill()  # so the agent cannot report the end, and stays until Slurm ends it
    wait_until(lambda: state_of(product, slurm_job) == "TIMEOUT", within_s=150)
    product.server.start()
    ended = product.server.wait(job, "completed", "failed", within_s=60)
    assert ended["status"] == "completed", ended["failure"]
    assert product.codes(job) == ["time_limit"]
    first, second = ended["attempts"]
    assert f"Slurm job {slurm_job}: it reached its time limit" in first["message"]
    assert first["end_text"] == "the time limit of the engine ended it"
    assert (second["resume_step"], second["resume_state"]) == (20, "verified")
    assert product.model(job) == product.model(whole)
    wait_until(lambda: "saves step 20" in product.server.anygpu("logs", job, "--attempt", "1"))
    product.wait_until_empty()


def state_of(product: Product, slurm_job: str) -> str:
    return product.cluster.run("squeue", "-h", "-t", "all", "-j", slurm_job, "-o", "%T").strip()
