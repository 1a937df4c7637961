"""The example job with checkpoints on Slurm: interrupted in Slurm's own ways, it ends with the same model."""

import re
import time
from collections.abc import Callable, Iterator

import pytest
from scripts.clusters.slurm import HIGH, LOW, SlurmCluster
from tests.acceptance.machines.wired_host import open_wired_host
from tests.clusters.example_job import STEP_S, STEPS
from tests.clusters.slurm.product import Product, backend_settings, wait_until

from anygpu.testing.servers.cuttable_proxy import CuttableProxy

pytestmark = pytest.mark.timeout(180)
OUTAGE_S = 62.0
LONG_STEPS = 500  # 75 seconds and more


@pytest.fixture(scope="module")
def wire(
    tmp_path_factory: pytest.TempPathFactory, login_path: tuple[str, ...]
) -> Iterator[tuple[CuttableProxy, dict[str, str]]]:
    with open_wired_host(tmp_path_factory.mktemp("login"), login_path) as (node, wire):
        yield (
            wire,
            {"host": f"{node.user}@127.0.0.1:{wire.port}", "private_key": node.key.private_openssh},
        )


@pytest.fixture(scope="module")
def product(
    tmp_path_factory: pytest.TempPathFactory,
    cluster: SlurmCluster,
    wire: tuple[CuttableProxy, dict[str, str]],
) -> Iterator[Product]:
    folder = tmp_path_factory.mktemp("product")
    settings = (
        backend_settings("high", folder, partitions=[HIGH]),
        backend_settings("low", folder, partitions=[LOW]),
        backend_settings("requeued", folder, partitions=[LOW], sbatch_options=["--requeue"]),
        backend_settings("limited", folder, partitions=[HIGH], max_run_s=600),
        backend_settings("remote", folder, partitions=[HIGH], **wire[1]),
        backend_settings("relayed", folder, partitions=[HIGH], relay="cluster"),
        backend_settings("relayed-ssh", folder, partitions=[HIGH], relay="cluster", **wire[1]),
    )
    made = Product(folder, cluster, "\n".join(settings))
    yield made
    made.server.stop()
    assert "Traceback" not in (log := (folder / "server.log").read_text()), log


@pytest.fixture(scope="module")
def model(product: Product) -> bytes:
    """The model of a run without interruption."""
    job = product.submit("high")
    product.server.wait(job, "completed", within_s=60)
    assert product.server.job(job)["attempt"] == 1
    return product.model(job)


def cancel(product: Product, job: str) -> None:
    product.cluster.run("scancel", job)


def requeue(product: Product, job: str) -> None:
    product.cluster.run("scontrol", "update", f"JobId={job}", "Requeue=1")
    product.cluster.run("scontrol", "requeue", job)


def preempt(product: Product, job: str) -> None:
    whole = ("-N", "3", "--exclusive", "-t", "1", "-o", "/dev/null")
    product.cluster.run("sbatch", "-p", HIGH, *whole, "--wrap", "sleep 3")


def drain_and_take_down(product: Product, job: str) -> None:
    node = product.node_of(job)
    product.cluster.run("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=repair")
    assert product.cluster.run("squeue", "-h", "-j", job, "-o", "%T").strip() == "RUNNING"
    product.cluster.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=repair")


def signal_before_the_time_limit(product: Product, job: str) -> None:
    product.cluster.run("scancel", "--batch", "--signal=URG", job)  # as --signal=B:URG does


@pytest.mark.parametrize(
    ("backend", "interrupt", "codes"),
    [
        ("high", cancel, {"cancelled_by_engine", "preempt"}),
        ("remote", cancel, {"cancelled_by_engine", "preempt"}),
        ("high", requeue, {"preempted", "preempt"}),
        ("relayed", cancel, {"cancelled_by_engine", "preempt"}),
        ("relayed-ssh", requeue, {"preempted", "preempt"}),
        ("low", preempt, {"preempted", "preempt"}),
        ("requeued", preempt, {"preempted", "preempt"}),
        ("high", drain_and_take_down, {"node_failed", "preempt"}),
        ("limited", signal_before_the_time_limit, {"preempt"}),
    ],
)
def test_an_interrupted_job_resumes_and_makes_the_same_model(
    product: Product,
    model: bytes,
    backend: str,
    interrupt: Callable[[Product, str], None],
    codes: set[str],
) -> None:
    # A checkpoint takes longer to arrive through a relay.
    job = product.submit(backend, step_s=3 * STEP_S if backend.startswith("relayed") else STEP_S)
    product.wait_for_checkpoint(job)
    first = product.slurm_job(job)
    interrupt(product, first)
    ended = product.server.wait(job, "completed", "failed", within_s=120)
    assert ended["status"] == "completed", ended["failure"]
    assert ended["attempt"] == 2
    assert set(product.codes(job)) <= codes
    assert product.model(job) == model
    product.wait_until_empty()
    log = product.server.anygpu("logs", job)
    assert "resumed at step" in log


@pytest.mark.timeout(400)
def test_jobs_survive_a_login_node_that_does_not_answer_for_a_minute(
    product: Product, model: bytes, wire: tuple[CuttableProxy, dict[str, str]]
) -> None:
    """One job reports to the server directly, one through the login node. A short one ends meanwhile."""
    reference = product.submit("high", steps=LONG_STEPS, step_s=0.01)
    direct = product.submit("remote", steps=LONG_STEPS)
    relayed = product.submit("relayed-ssh", steps=LONG_STEPS)
    for job in (direct, relayed):
        product.wait_for_checkpoint(job)
    short = product.submit("remote")
    product.wait_for_checkpoint(short)
    wire[0].take_down()
    began = time.monotonic()
    try:
        wait_until(lambda: step_of(product, short) == STEPS, within_s=OUTAGE_S)
        relayed_step = step_of(product, relayed)
        wait_until(lambda: time.monotonic() - began > OUTAGE_S, within_s=2 * OUTAGE_S)
        assert wire[0].refused > 0, "the server has tried to connect"
        assert step_of(product, relayed) == relayed_step, "no report has arrived"
        assert len(product.mailboxes()) > 0
        assert step_of(product, direct) > STEPS
        # Slurm has not confirmed the end of the short one.
        assert [product.server.job(job)["status"] for job in (short, direct, relayed)] == ["running"] * 3
    finally:
        wire[0].bring_up()
    for job in (short, direct, relayed):
        ended = product.server.wait(job, "completed", "failed", within_s=120)
        assert (ended["status"], ended["attempt"]) == ("completed", 1), ended["failure"]
    assert product.model(short) == model
    assert product.model(direct) == product.model(relayed) == product.model(reference)
    for job, steps in ((short, STEPS), (direct, LONG_STEPS), (relayed, LONG_STEPS)):
        assert logged_steps(product, job) == [*range(1, steps + 1)]
    product.wait_until_empty()


def step_of(product: Product, job: str) -> int:
    progress = product.server.job(job)["progress"]
    return int(progress["step"] or 0) if progress else 0


def logged_steps(product: Product, job: str) -> list[int]:
    log = product.server.anygpu("logs", job, "--tail", "1000")
    return [int(number) for number in re.findall(r"^step (\d+)/", log, re.MULTILINE)]


def test_a_cancelled_job_leaves_nothing_in_the_queue(product: Product) -> None:
    running = product.submit("high")
    product.wait_for_checkpoint(running)
    product.cluster.run("sbatch", "-N", "3", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 100")
    waiting = product.submit("high")
    product.server.until(waiting, lambda job: job["attempt"] == 1, within_s=30)
    for job in (running, waiting):
        product.server.anygpu("cancel", job)
        product.server.wait(job, "cancelled", within_s=60)
    product.cluster.run("scancel", "-u", "root", "-n", "wrap")
    product.wait_until_empty()


def test_no_mailbox_is_left_on_the_cluster(product: Product) -> None:
    """The jobs of the tests above had some."""
    wait_until(lambda: product.mailboxes() == [], within_s=120)
