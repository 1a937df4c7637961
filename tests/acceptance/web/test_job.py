"""The page of one job: its state, its attempts, its files and what can be done with it."""

import hashlib
import json
import os
import re
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tests.acceptance.server.real_server import Server
from tests.acceptance.web.browser import PageGuard, check_accessibility, take_screenshot
from tests.acceptance.web.conftest import PageOpener

TABS = ("log", "plan", "checkpoints", "artifacts", "events", "spec")
MODEL = bytes(range(256)) * 4096
TRAINING = """
import os, pathlib, time
import anygpu
found = anygpu.resume_path()
start = int(pathlib.Path(found).read_text()) if found else 0
steps = int(os.environ.get("STEPS", "4000"))
for step in range(start + 1, steps + 1):
    pathlib.Path("state.txt").write_text(str(step))
    anygpu.log(step=step, loss=3 / (step + 10) + 0.1)
    anygpu.progress(step=step, steps=steps)
    if step % 10 == 0:
        print(f"step {step} loss {3 / (step + 10) + 0.1:.4f}", flush=True)
        anygpu.checkpoint("state.txt", step=step, wait=True)
    time.sleep(0.05)
"""
FILES = """
import base64, pathlib
import anygpu
pathlib.Path("model.bin").write_bytes(bytes(range(256)) * 4096)
pathlib.Path("notes.md").write_text("# Result\\n<script>window.hostile = 1</script>")
pathlib.Path("scores.csv").write_text("epoch,accuracy\\n" + "".join(f"{n},{n / 100}\\n" for n in range(100)))
pathlib.Path("plot.svg").write_text(
    '<svg xmlns="http://www.w3.org/2000/svg" width="120" height="90" viewBox="0 0 120 90">'
    '<rect width="120" height="90" fill="#15837b"/></svg>'
)
for name in ("model.bin", "notes.md", "scores.csv", "plot.svg"):
    anygpu.artifact(name)
for step in (10, 20, 30):
    pathlib.Path("state.txt").write_text(str(step))
    anygpu.checkpoint("state.txt", step=step, wait=True)
"""
HOSTILE = "<img src=x onerror=window.hostile=1>"


def kill_agent(server: Server, job_id: str, attempt: int) -> None:
    """End the agent of an attempt at once, as if the machine was taken away."""
    folder = server.state / "attempts" / f"anygpu-{job_id.replace('-', '')}-{attempt}"
    os.kill(json.loads((folder / "agent.json").read_text())["pid"], signal.SIGKILL)


def has_reached(step: int) -> Any:
    return lambda job: (job["progress"]["step"] or 0) >= step


def open_tab(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Job", exact=True).get_by_role(
        "link", name=re.compile(f"^{name}")
    ).click()


def wait_for_step(page: Page, least: int) -> int:
    """Wait until the page shows at least this step, and return the shown one."""
    shown = page.locator(".stat", has_text="Progress").first
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found = re.search(r"step ([\d,]+) of 4,000", shown.inner_text())
        if found is not None and (step := int(found[1].replace(",", ""))) >= least:
            return step
        page.wait_for_timeout(50)
    raise AssertionError(f"the page does not show step {least}: {shown.inner_text()}")


@pytest.fixture(scope="module")
def files_job(web_server: Server) -> dict[str, Any]:
    """A completed job with four artifacts and three checkpoints."""
    job_id = web_server.submit(code=FILES, name="with-files", tags=["night"])
    job = web_server.wait_ended(job_id, 60)
    assert job["status"] == "completed", job["failure"]
    return job


@pytest.fixture
def running_job(web_server: Server) -> Iterator[str]:
    job_id = web_server.submit(code=TRAINING, name="resnet50-in1k", tags=["in1k", "baseline"])
    web_server.wait(job_id, has_reached(12), 60)
    yield job_id
    web_server.ask("POST", f"/api/v1/training/{job_id}/cancel")
    web_server.wait_ended(job_id)


def test_an_interruption_and_the_resume_appear_on_the_timeline(
    web_server: Server, running_job: str, open_page: PageOpener
) -> None:
    page = open_page(f"/jobs/{running_job}")
    expect(page.get_by_role("heading", name="resnet50-in1k")).to_be_visible()
    lanes = page.locator(".lane:not(.better)")
    expect(lanes).to_have_count(1)
    web_server.wait(running_job, has_reached(45), 60)
    kill_agent(web_server, running_job, 1)
    expect(lanes).to_have_count(2)
    expect(lanes.first).to_contain_text("the machine is gone")
    expect(page.get_by_text("1 interruption")).to_be_visible()
    expect(page.locator(".join")).to_have_count(1)
    expect(lanes.last).to_contain_text("running")
    expect(page.locator(".big-track > b")).to_have_count(2)
    resumed = web_server.wait(
        running_job, lambda job: job["resume"] and job["resume"]["state"] == "verified", 60
    )
    step = resumed["attempts"][1]["resume_step"]
    expect(lanes.last.get_by_role("img")).to_have_attribute(
        "aria-label", re.compile(f"resumed from step {step}")
    )
    open_tab(page, "Events")
    expect(page.get_by_text(f"checkpoint of step {step}")).to_be_visible()
    check_accessibility(page)


def test_progress_moves_without_a_reload(web_server: Server, running_job: str, open_page: PageOpener) -> None:
    page = open_page(f"/jobs/{running_job}")
    before = wait_for_step(page, 1)
    page.evaluate("window.loadedOnce = true")
    wait_for_step(page, before + 30)
    assert page.evaluate("window.loadedOnce")


def test_the_machine_of_a_running_job_is_read_again_when_it_is_shown_again(
    running_job: str, open_page: PageOpener
) -> None:
    page = open_page(f"/jobs/{running_job}")
    machine = page.get_by_role("region", name="Machine")
    history = re.compile(r"/telemetry\?")
    expect(machine.locator(".sysrows, .empty").first).to_be_visible()
    page.keyboard.press("2")
    expect(machine).to_have_count(0)
    with page.expect_response(history, timeout=60_000):
        page.keyboard.press("1")
    for chosen, other in (("Last hour", "Whole run"), ("Whole run", "Last hour")):
        machine.get_by_role("button", name=chosen).click()
        with page.expect_response(history, timeout=60_000):
            page.get_by_role("menuitem", name=other).click()
        expect(machine.locator(".sysrows, .empty").first).to_be_visible()


@pytest.mark.parametrize(("dark", "screen"), [(False, "desktop"), (True, "desktop"), (False, "phone")])
def test_every_tab_is_accessible(running_job: str, open_page: PageOpener, dark: bool, screen: str) -> None:
    page = open_page(f"/jobs/{running_job}", dark=dark, screen=screen)
    look = f"{screen}-{'dark' if dark else 'light'}"
    expect(page.get_by_role("heading", name="Attempts")).to_be_visible()
    expect(page.locator("canvas").first).to_be_visible()
    check_accessibility(page)
    take_screenshot(page, f"job-{look}", full=True)
    for tab in TABS:
        open_tab(page, tab.capitalize())
        expect(page).to_have_url(re.compile(f"tab={tab}"))
        expect(page.locator(".job-panels").locator(".panel, .empty").first).to_be_visible()
        check_accessibility(page)
        take_screenshot(page, f"job-{tab}-{look}", full=True)


def test_the_model_is_downloaded_with_its_hash(files_job: dict[str, Any], open_page: PageOpener) -> None:
    page = open_page(f"/jobs/{files_job['id']}?tab=artifacts")
    with page.expect_download() as started:
        page.get_by_role("link", name="Download model.bin").click()
    assert started.value.suggested_filename == "model.bin"
    data = started.value.path().read_bytes()
    assert data == MODEL
    shown = page.get_by_role("row", name=re.compile("model.bin")).locator(".hash")
    expect(shown).to_have_text(f"{hashlib.sha256(data).hexdigest()[:8]}…")
    take_screenshot(page, "job-artifacts")
    phone = open_page(f"/jobs/{files_job['id']}?tab=artifacts", screen="phone")
    expect(phone.get_by_role("link", name="Download model.bin")).to_be_visible()
    check_accessibility(phone)
    take_screenshot(phone, "job-artifacts-phone", full=True)


def test_texts_tables_and_images_have_a_preview(files_job: dict[str, Any], open_page: PageOpener) -> None:
    page = open_page(f"/jobs/{files_job['id']}?tab=artifacts")
    page.get_by_role("button", name="Preview notes.md").click()
    expect(page.get_by_role("dialog").locator("pre")).to_contain_text("<script>window.hostile = 1</script>")
    check_accessibility(page)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Preview scores.csv").click()
    table = page.get_by_role("dialog").get_by_role("table")
    expect(table.get_by_role("row")).to_have_count(101)
    expect(table.get_by_role("columnheader", name="accuracy")).to_be_visible()
    take_screenshot(page, "job-preview-table")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Preview plot.svg").click()
    picture = page.get_by_role("dialog").get_by_role("img", name="plot.svg")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.naturalWidth") == 120
    take_screenshot(page, "job-preview-image")
    assert page.evaluate("window.hostile") is None


def test_a_job_is_cancelled_after_a_question(
    web_server: Server, running_job: str, open_page: PageOpener
) -> None:
    page = open_page(f"/jobs/{running_job}")
    page.get_by_role("button", name="Cancel", exact=True).click()
    dialog = page.get_by_role("alertdialog", name="Cancel the job?")
    expect(dialog.get_by_role("button", name="Keep it running")).to_be_focused()
    expect(dialog).to_contain_text("Training since the checkpoint of")
    take_screenshot(page, "job-cancel")
    check_accessibility(page)
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert not web_server.job(running_job)["cancel_requested"]
    page.get_by_role("button", name="Cancel", exact=True).click()
    dialog.get_by_role("button", name="Cancel the job").click()
    expect(page.locator(".job-head .pill")).to_have_text("Cancelled")
    expect(page.get_by_role("button", name="Cancel", exact=True)).to_be_hidden()
    assert web_server.wait_ended(running_job)["status"] == "cancelled"


def test_a_new_job_resumes_from_the_chosen_checkpoint(
    web_server: Server, files_job: dict[str, Any], open_page: PageOpener
) -> None:
    page = open_page(f"/jobs/{files_job['id']}")
    page.get_by_role("button", name="Resume", exact=True).click()
    dialog = page.get_by_role("dialog", name="Resume the job")
    dialog.get_by_role("radio", name=re.compile("step 20")).check()
    take_screenshot(page, "job-resume")
    check_accessibility(page)
    dialog.get_by_role("button", name="Resume from step 20").click()
    expect(page).not_to_have_url(re.compile(files_job["id"]))
    expect(page.get_by_text("continues")).to_be_visible()
    resumed = web_server.job(page.url.rsplit("/", 1)[-1])
    assert resumed["resumed_from"] == files_job["id"]
    ended = web_server.wait_ended(resumed["id"])
    assert ended["attempts"][0]["resume_step"] == 20


def test_name_tags_and_notes_are_edited_in_place(
    web_server: Server, files_job: dict[str, Any], open_page: PageOpener
) -> None:
    page = open_page(f"/jobs/{files_job['id']}")
    page.get_by_role("button", name="Add a tag").click()
    page.get_by_role("textbox", name="New tag").fill(HOSTILE)
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name=HOSTILE)).to_be_visible()
    page.get_by_role("button", name="Remove the tag night").click()
    expect(page.get_by_role("link", name="night")).to_be_hidden()
    page.get_by_role("button", name="Rename the job").click()
    page.get_by_role("textbox", name="Name of the job").fill("with-all-files")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="with-all-files")).to_be_visible()
    page.get_by_role("button", name="Add a note").click()
    page.get_by_role("textbox", name="Notes").fill(f"Larger batch.\n{HOSTILE}")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Larger batch.")).to_be_visible()
    job = web_server.job(files_job["id"])
    assert (job["name"], job["tags"], job["notes"]) == (
        "with-all-files",
        [HOSTILE],
        f"Larger batch.\n{HOSTILE}",
    )
    assert page.evaluate("window.hostile") is None
    take_screenshot(page, "job-edited")
    web_server.ask("PATCH", f"/api/v1/training/{job['id']}", {"name": "with-files", "tags": ["night"]})


def test_a_viewer_sees_no_actions(running_job: str, open_page: PageOpener) -> None:
    page = open_page(f"/jobs/{running_job}", role="viewer")
    expect(page.get_by_role("heading", name="Attempts")).to_be_visible()
    for name in ("Cancel", "Migrate", "Clone", "Rename the job", "Add a tag", "Add a note", "New job"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
        expect(page.get_by_role("link", name=name)).to_have_count(0)
    for tab in TABS:
        open_tab(page, tab.capitalize())
        expect(page.locator(".job-panels").locator(".panel, .empty").first).to_be_visible()
    take_screenshot(page, "job-viewer")


def test_a_watched_job_is_in_the_sidebar(files_job: dict[str, Any], open_page: PageOpener) -> None:
    page = open_page(f"/jobs/{files_job['id']}", role="viewer")
    page.get_by_role("button", name="Watch", exact=True).click()
    expect(page.get_by_role("button", name="Watching")).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".side").get_by_role("link", name=re.compile(files_job["name"]))).to_be_visible()
    page.keyboard.press("w")
    expect(page.get_by_role("button", name="Watch", exact=True)).to_be_visible()


def test_a_failed_job_shows_the_cause_first(web_server: Server, open_page: PageOpener) -> None:
    job_id = web_server.submit(
        code="print('loading')\nraise ValueError('no such column: price')", name="fails"
    )
    assert web_server.wait_ended(job_id)["status"] == "failed"
    page = open_page(f"/jobs/{job_id}?log=1&line=1")
    cause = page.get_by_role("alert", name="Why the job failed")
    expect(cause).to_contain_text("exited with code 1")
    expect(cause).to_contain_text("no such column: price")
    expect(cause).to_contain_text("correct the script")
    check_accessibility(page)
    take_screenshot(page, "job-failed", full=True)
    cause.get_by_role("link", name="Open the log").click()
    expect(page).to_have_url(re.compile(r"\?tab=log$"))


def test_a_waiting_job_shows_why_it_waits_and_can_be_started_first(
    web_server: Server, open_page: PageOpener
) -> None:
    long = web_server.submit(command=["sleep", "600"], resources={"cpus": 4}, name="occupies")
    web_server.wait(long, lambda job: job["phase"] == "training")
    job_id = web_server.submit(command=["true"], resources={"cpus": 4}, name="waits")
    web_server.wait(job_id, lambda job: job["phase"] == "waiting")
    page = open_page(f"/jobs/{job_id}")
    expect(page.get_by_text("The job waits.")).to_be_visible()
    expect(page.locator(".job-head .pill")).to_have_text("Waiting")
    take_screenshot(page, "job-waiting")
    check_accessibility(page)
    page.get_by_role("button", name="Start now").click()
    expect(page.get_by_text("It starts before the other waiting jobs.")).to_be_visible()
    expect(page.get_by_role("button", name="Start now")).to_be_hidden()
    web_server.ask("POST", f"/api/v1/training/{long}/cancel")
    expect(page.locator(".job-head .pill")).to_have_text("Completed")
    expect(page.locator(".lane")).to_have_count(1)


def test_the_address_names_the_job_that_is_shown(files_job: dict[str, Any], open_page: PageOpener) -> None:
    page = open_page(f"/jobs/{files_job['id'][-12:]}?tab=spec")
    expect(page).to_have_url(re.compile(f"/jobs/{files_job['id']}\\?tab=spec"))
    expect(page.get_by_role("heading", name="Spec")).to_be_visible()


def test_a_deleted_job_and_an_unknown_one_have_their_own_state(
    web_server: Server, open_page: PageOpener, guard: PageGuard
) -> None:
    guard.allow("answer 404")
    job_id = web_server.submit(command=["true"], name="short")
    web_server.wait_ended(job_id)
    page = open_page(f"/jobs/{job_id}")
    other = open_page(f"/jobs/{job_id}")
    expect(other.get_by_role("heading", name="Attempts")).to_be_visible()
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name="Delete the job").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Delete the job").click()
    expect(page).to_have_url(re.compile("/jobs$"))
    other.reload()
    expect(other.get_by_text(f"There is no job “{job_id}”")).to_be_visible()
    check_accessibility(other)


def test_the_page_survives_a_restart_of_the_server(
    web_server: Server, running_job: str, open_page: PageOpener, guard: PageGuard
) -> None:
    guard.allow("ERR_CONNECTION_REFUSED|WebSocket connection|failed request|ERR_EMPTY_RESPONSE|answer 5")
    page = open_page(f"/jobs/{running_job}")
    port = web_server.url.rsplit(":", 1)[-1]
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    web_server.stop()
    expect(page.get_by_text("Not connected").first).to_be_visible()
    expect(page.get_by_role("heading", name="resnet50-in1k")).to_be_visible()
    take_screenshot(page, "job-disconnected")
    web_server.start("--port", port)
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    before = web_server.job(running_job)["progress"]["step"]
    wait_for_step(page, before + 20)


def test_keys_open_the_tabs(files_job: dict[str, Any], open_page: PageOpener) -> None:
    page = open_page(f"/jobs/{files_job['id']}")
    expect(page.get_by_role("heading", name="Attempts")).to_be_visible()
    for key, tab in zip("234567", TABS, strict=True):
        page.keyboard.press(key)
        expect(page).to_have_url(re.compile(f"tab={tab}"))
    page.keyboard.press("1")
    expect(page).not_to_have_url(re.compile("tab="))


def test_slash_searches_and_j_and_k_move_between_rows(
    files_job: dict[str, Any], open_page: PageOpener
) -> None:
    page = open_page(f"/jobs/{files_job['id']}?tab=artifacts")
    rows = page.locator("#content tbody tr")
    expect(rows.first).to_be_visible()
    for key, index in (("j", 0), ("j", 1), ("k", 0), ("k", 0)):
        page.keyboard.press(key)
        expect(rows.nth(index).locator(":focus")).to_have_count(1)
    page.keyboard.press("?")
    keys = page.get_by_role("dialog").locator("dt")
    expect(keys.filter(has_text="Next row")).to_have_count(1)
    expect(keys.filter(has_text="Search in the page")).to_have_count(0)
    page.keyboard.press("Escape")
    open_tab(page, "Log")
    expect(page.locator("#content input[type=search]")).to_be_visible()
    page.keyboard.press("/")
    expect(page.locator("#content input[type=search]")).to_be_focused()


def test_the_filter_of_the_events_and_the_form_of_the_spec_are_in_the_address(
    files_job: dict[str, Any], open_page: PageOpener
) -> None:
    page = open_page(f"/jobs/{files_job['id']}?tab=events")
    field = page.get_by_label("Filter the events")
    field.fill("JobSubmitted")
    expect(page).to_have_url(re.compile("event=JobSubmitted"))
    page.reload()
    expect(field).to_have_value("JobSubmitted")
    expect(page.locator("ol.events li")).to_have_count(1)
    open_tab(page, "Spec")
    page.get_by_role("group", name="Form").get_by_role("button", name="Python").click()
    expect(page).to_have_url(re.compile("form=python"))
    page.reload()
    expect(page.locator("pre.spec")).to_contain_text("import anygpu")
