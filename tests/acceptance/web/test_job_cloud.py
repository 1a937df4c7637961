"""The page of a job on rented machines: spot interruptions, migration, money and held machines."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.acceptance.machines.cloud import BRISK, Cloud, free_port
from tests.acceptance.server.real_server import Server
from tests.acceptance.web.browser import check_accessibility, take_screenshot
from tests.acceptance.web.conftest import SETTINGS, PageOpener

TRAINING = """
import pathlib, time
import anygpu
found = anygpu.resume_path()
start = int(pathlib.Path(found).read_text()) if found else 0
state = pathlib.Path("state.txt")
for step in range(start + 1, 3001):
    time.sleep(0.1)
    anygpu.log(step=step, loss=3 / (step + 10) + 0.1)
    anygpu.progress(step=step, steps=3000)
    stopping = anygpu.should_stop()
    if step % 10 == 0 or stopping:
        state.write_text(str(step))
        anygpu.checkpoint(state, step=step)
    if stopping:
        raise SystemExit(0)
"""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    folder: Path = tmp_path_factory.mktemp("cloud")
    made = Cloud(folder, "--boot", "1s", "--ssh-port", str(free_port()))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def web_server(tmp_path_factory: pytest.TempPathFactory, built_app: None, cloud: Cloud) -> Iterator[Server]:
    """A server that rents in two regions of a simulated EC2, and has no machine of its own."""
    folder = tmp_path_factory.mktemp("rented")
    config = folder / "config.toml"
    config.write_text(
        cloud.settings(
            east={"kind": "ec2", "regions": ["us-east-1"]}, west={"kind": "ec2", "regions": ["us-west-2"]}
        )
    )
    settings = {**SETTINGS, **BRISK, "ANYGPU_LOCAL__ENABLED": "false"}
    server = Server(folder, **settings, ANYGPU_CONFIG=str(config))
    yield server
    server.cancel_everything()
    server.stop()


@pytest.mark.extended
def test_a_spot_interruption_and_a_migration_are_told_with_their_cost(
    web_server: Server, cloud: Cloud, open_page: PageOpener
) -> None:
    job_id = web_server.submit(
        code=TRAINING,
        name="resnet50-in1k-160",
        tags=["in1k", "baseline"],
        python=sys.executable,
        resources={"gpu": "A10G:1"},
        checkpoint={"paths": ["state.txt"], "every": "5s"},
        limits={"max_cost": 12},
        placement={"paid": True, "interruptible": "yes"},
    )
    web_server.wait(job_id, lambda job: (job["progress"]["step"] or 0) > 40, 90)
    page = open_page(f"/jobs/{job_id}")
    lanes = page.locator(".lane:not(.better)")
    expect(lanes).to_have_count(1)
    expect(page.locator(".stat", has_text="Cost")).to_contain_text("of $12.00 budget")
    (machine,) = [each for each in cloud.of(job_id) if each["ended_at_ms"] is None]
    cloud.ask(f"preempt/{machine['id']}", {"notice_s": 6})
    expect(lanes).to_have_count(2, timeout=60_000)
    expect(lanes.first).to_contain_text("back with notice")
    second = web_server.wait(job_id, lambda job: job["attempt"] == 2 and job["phase"] == "training", 90)
    other = "west" if second["backend"] == "east" else "east"
    page.get_by_role("button", name="Migrate", exact=True).first.click()
    page.get_by_role("menuitem", name=re.compile(f"^{other}")).click()
    expect(lanes.nth(1)).to_contain_text(re.compile("request"), timeout=60_000)
    web_server.wait(job_id, lambda job: job["backend"] == other and job["phase"] == "training", 90)
    expect(page.locator(".stat", has_text="Now on")).to_contain_text(other)
    expect(page.get_by_text("1 interruption")).to_be_visible()
    check_accessibility(page)
    take_screenshot(page, "job-rented-light", full=True)
    plan = open_page(f"/jobs/{job_id}?tab=plan")
    expect(plan.get_by_role("heading", name="Why there")).to_be_visible()
    expect(plan.get_by_text(re.compile("attempt 1, ")).first).to_be_visible()
    take_screenshot(plan, "job-rented-plan", full=True)
    for screen in ("laptop", "phone"):
        small = open_page(f"/jobs/{job_id}", screen=screen, dark=screen == "phone")
        expect(small.locator(".lane")).not_to_have_count(0)
        check_accessibility(small)
        take_screenshot(small, f"job-rented-{screen}", full=True)
    web_server.ask("POST", f"/api/v1/training/{job_id}/cancel")
    web_server.wait_ended(job_id, 60)


def test_a_held_machine_is_released_from_the_page(web_server: Server, open_page: PageOpener) -> None:
    job_id = web_server.submit(
        code="print('no column price')\nraise SystemExit(3)",
        name="held",
        python=sys.executable,
        placement={"paid": True, "hold_on_failure": "30m"},
    )
    web_server.wait(job_id, lambda job: job["phase"] == "held", 90)
    page = open_page(f"/jobs/{job_id}")
    expect(page.get_by_text("The script failed and its machine is held")).to_be_visible()
    expect(page.locator(".lane .tb.hold")).to_have_count(1)
    expect(page.locator(".lane")).to_contain_text("held")
    take_screenshot(page, "job-held")
    check_accessibility(page)
    page.get_by_role("button", name="Release the machine").click()
    expect(page.get_by_role("alert", name="Why the job failed")).to_be_visible(timeout=60_000)
    assert web_server.wait_ended(job_id, 60)["status"] == "failed"
