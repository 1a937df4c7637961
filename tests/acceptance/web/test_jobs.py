"""The list of jobs: live rows, filters in the URL, keyboard, selection, and many jobs."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.acceptance.server.real_server import Server
from tests.acceptance.web.browser import PageGuard, check_accessibility, take_screenshot
from tests.acceptance.web.conftest import PageOpener

GATED = """
import anygpu, pathlib, time
anygpu.log({{"val/accuracy": 0.5}}, step=1)
anygpu.log({{"val/accuracy": 0.75}}, step=2)
anygpu.progress(step=4, steps=10)
while not pathlib.Path({gate!r}).exists():
    time.sleep(0.05)
"""
# Chromium without a display grants the permission but has no notifications, and says `denied` in this property. The
# page keeps what it asked the browser to show.
RECORD_NOTIFICATIONS = """
() => {
  window.notified = [];
  const Shown = window.Notification;
  window.Notification = class extends Shown {
    static get permission() { return "granted"; }
    constructor(title, options) {
      super(title, options);
      window.notified.push([title, options.body]);
    }
  };
}
"""
Submit = Callable[..., str]


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    """Jobs of a test run until this file exists."""
    gate = tmp_path / "gate"
    yield gate
    gate.touch()


@pytest.fixture
def submit(web_server: Server, gate: Path) -> Submit:
    """Submit a job that reports a metric and then waits for the gate."""

    def submit_one(name: str, **spec: object) -> str:
        return web_server.submit(code=GATED.format(gate=str(gate)), name=name, **spec)

    return submit_one


def row(page: Page, name: str) -> Locator:
    return page.locator("tr[data-job]").filter(has=page.get_by_role("link", name=name, exact=True))


def tab(page: Page, name: str) -> Locator:
    return page.get_by_role("navigation", name="Status").get_by_role("link", name=re.compile(f"^{name}"))


def test_an_empty_project_says_how_to_start(page: Page) -> None:
    expect(page.get_by_role("heading", name="No jobs in default yet")).to_be_visible()
    expect(page.get_by_text("anygpu run train.py")).to_be_visible()
    check_accessibility(page)


def test_a_job_appears_progresses_and_ends_by_itself(
    page: Page, web_server: Server, submit: Submit, gate: Path
) -> None:
    expect(page.get_by_role("navigation", name="Status")).to_be_visible()
    job_id = submit("live", tags=["first", "<b>bold</b>"])
    line = row(page, "live")
    expect(line).to_contain_text("Training")
    expect(line).to_contain_text("<b>bold</b>")
    expect(line.locator(".c-metric")).to_contain_text("0.75")
    expect(line.locator(".c-metric")).to_contain_text("accuracy")
    expect(line.locator(".c-prog")).to_contain_text("40")
    expect(tab(page, "Active")).to_contain_text("1")
    gate.touch()
    expect(line).to_contain_text("Completed")
    web_server.wait_ended(job_id)
    expect(tab(page, "Completed")).to_contain_text("1")
    expect(line.locator(".c-eta")).to_contain_text("took")


def test_new_rows_wait_while_the_pointer_is_in_the_table(page: Page, submit: Submit) -> None:
    submit("pointed")
    row(page, "pointed").hover()
    submit("later")
    fresh = page.get_by_role("button", name=re.compile("new or changed job"))
    expect(fresh).to_be_visible()
    expect(row(page, "later")).to_have_count(0)
    fresh.click()
    expect(row(page, "later")).to_be_visible()
    expect(fresh).to_have_count(0)


def test_filters_are_in_the_url_and_can_be_shared(page: Page, open_page: PageOpener, submit: Submit) -> None:
    submit("filtered", tags=["wanted"])
    submit("other")
    expect(row(page, "other")).to_be_visible()
    page.get_by_role("button", name="Filter", exact=True).click()
    page.get_by_role("button", name="Tag", exact=True).click()
    page.get_by_label("Tag is exactly").fill("wanted")
    page.get_by_label("Tag is exactly").press("Enter")
    expect(row(page, "other")).to_have_count(0)
    expect(page).to_have_url(re.compile("tag=wanted"))
    expect(page.get_by_text("1 job", exact=True)).to_be_visible()
    shared = open_page(page.url)
    expect(row(shared, "filtered")).to_be_visible()
    expect(row(shared, "other")).to_have_count(0)
    page.keyboard.press("/")
    page.keyboard.type("nothing like this")
    expect(page.get_by_role("heading", name="No jobs match")).to_be_visible()
    expect(page.get_by_text("“nothing like this”, tag wanted")).to_be_visible()
    page.get_by_role("button", name="Clear the filters").click()
    expect(row(page, "other")).to_be_visible()
    tab(page, "Active").click()
    expect(page).to_have_url(re.compile("status=active"))


def test_columns_can_be_hidden(page: Page, submit: Submit) -> None:
    submit("columns")
    expect(row(page, "columns")).to_be_visible()
    page.get_by_role("button", name="Columns").click()
    page.get_by_label("Where", exact=True).uncheck()
    expect(page.get_by_role("columnheader", name="Where")).to_have_count(0)
    expect(page).to_have_url(re.compile("hide=where"))


def test_the_keyboard_selects_compares_and_opens(page: Page, submit: Submit) -> None:
    submit("first-key")
    submit("second-key")
    expect(row(page, "second-key")).to_be_visible()
    for key in ("j", "x", "j", "x"):
        page.keyboard.press(key)
    expect(page.get_by_text("2 selected")).to_be_visible()
    expect(page).to_have_url(re.compile("selected="))
    page.keyboard.press("Escape")
    expect(page.get_by_text("2 selected")).to_have_count(0)
    page.keyboard.press("x")
    page.keyboard.press("k")
    page.keyboard.press("x")
    page.keyboard.press("c")
    expect(page).to_have_url(re.compile("/compare[?]jobs="))
    page.go_back()
    expect(row(page, "second-key")).to_be_visible()
    page.keyboard.press("Escape")
    tab(page, "All").focus()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/jobs/[0-9a-f-]{36}"))


def test_enter_activates_the_link_or_button_with_the_focus(page: Page, submit: Submit) -> None:
    submit("enter-key")
    expect(row(page, "enter-key")).to_contain_text("Training")
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.get_by_role("button", name=re.compile("^Cancel 1")).focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("alertdialog", name="Cancel enter-key?")
    expect(dialog.get_by_role("button", name="Keep it running")).to_be_focused()
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("enter-key")
    expect(page).to_have_url(re.compile("q=enter-key"))
    expect(row(page, "enter-key")).to_contain_text("Training")
    expect(page.get_by_role("searchbox", name="Search jobs")).to_be_focused()
    page.get_by_role("link", name="New job").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/new"))


def test_selected_jobs_are_tagged(page: Page, web_server: Server, submit: Submit) -> None:
    jobs = [submit("tagged-1", tags=["old"]), submit("tagged-2")]
    expect(row(page, "tagged-1")).to_be_visible()
    expect(
        row(page, "tagged-2")
    ).to_be_visible()  # a new job waits behind a button while another one is selected
    for name in ("tagged-1", "tagged-2"):
        row(page, name).get_by_role("checkbox").check()
    page.keyboard.press("t")
    dialog = page.get_by_role("dialog", name="Tag 2 jobs")
    dialog.get_by_label("Add tags").fill("best, night")
    dialog.get_by_role("button", name="old").click()
    take_screenshot(page, "jobs-tag")
    check_accessibility(page)
    dialog.get_by_role("button", name="Save the tags").click()
    expect(dialog).to_have_count(0)
    expect(row(page, "tagged-1")).to_contain_text("best")
    assert [web_server.job(each)["tags"] for each in jobs] == [["best", "night"]] * 2


def test_cancelling_says_what_is_lost(page: Page, web_server: Server, submit: Submit) -> None:
    job_id = submit("doomed")
    web_server.wait(job_id, lambda job: job["phase"] == "training")
    row(page, "doomed").get_by_role("checkbox").check()
    page.get_by_role("button", name=re.compile("^Cancel 1")).click()
    dialog = page.get_by_role("alertdialog", name="Cancel doomed?")
    expect(dialog).to_contain_text("all work so far is lost")
    expect(dialog.get_by_role("button", name="Keep it running")).to_be_focused()
    take_screenshot(page, "jobs-cancel")
    dialog.get_by_role("button", name="Keep it running").click()
    assert web_server.job(job_id)["cancel_requested"] is False
    page.get_by_role("button", name=re.compile("^Cancel 1")).click()
    dialog.get_by_role("button", name="Cancel the job").click()
    expect(row(page, "doomed")).to_contain_text("Cancelled")
    assert web_server.wait_ended(job_id)["status"] == "cancelled"


def test_several_jobs_are_tagged_and_cancelled_on_a_phone(
    open_page: PageOpener, web_server: Server, submit: Submit
) -> None:
    jobs = [submit("phone-1"), submit("phone-2")]
    page = open_page("/jobs?q=phone-", screen="phone")
    expect(row(page, "phone-2").get_by_role("checkbox")).to_be_hidden()
    page.get_by_role("button", name="Select", exact=True).click()
    for name in ("phone-1", "phone-2"):
        row(page, name).click(position={"x": 200, "y": 20})  # the whole card is the box
    expect(page.get_by_text("2 selected")).to_be_visible()
    expect(page.get_by_role("checkbox", name="Select all loaded jobs")).to_be_checked()
    check_accessibility(page)
    take_screenshot(page, "jobs-phone-select")
    page.get_by_role("button", name="Tag", exact=True).click()
    page.get_by_label("Add tags").fill("mobile")
    page.get_by_role("button", name="Save the tags").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert [web_server.job(each)["tags"] for each in jobs] == [["mobile"]] * 2
    expect(page.get_by_role("button", name="Compare")).to_be_visible()
    page.get_by_role("button", name=re.compile("^Cancel 2")).click()
    page.get_by_role("button", name="Cancel 2 jobs").click()
    expect(row(page, "phone-2")).to_contain_text("Cancelled")
    page.get_by_role("button", name="Done").click()
    expect(row(page, "phone-2").get_by_role("checkbox")).to_be_hidden()


def test_a_shared_selection_acts_on_jobs_that_are_not_in_the_list(
    open_page: PageOpener, web_server: Server, submit: Submit, guard: PageGuard
) -> None:
    guard.allow("404")
    listed, other = submit("listed", tags=["listed"]), submit("elsewhere")
    lost = "00000000-0000-7000-8000-000000000000"
    page = open_page(f"/jobs?tag=listed&selected={listed},{other},{lost}")
    expect(page.get_by_text("2 selected, 1 not found")).to_be_visible()
    page.get_by_role("button", name=re.compile("^Cancel 2")).click()
    page.get_by_role("button", name="Cancel 2 jobs").click()
    for job_id in (listed, other):
        assert web_server.wait_ended(job_id)["status"] == "cancelled"


def test_several_statuses_are_a_filter(
    page: Page, web_server: Server, submit: Submit, open_page: PageOpener
) -> None:
    submit("still-active")
    stopped = submit("was-cancelled")
    web_server.ask("POST", f"/api/v1/training/{stopped}/cancel")
    web_server.wait_ended(stopped)
    page.get_by_role("button", name="Filter", exact=True).click()
    page.get_by_role("button", name="Status", exact=True).click()
    for status in ("Failed", "Cancelled"):
        page.get_by_label(status, exact=True).check()
    check_accessibility(page)
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("failed, cancelled")).to_be_visible()
    expect(row(page, "was-cancelled")).to_be_visible()
    expect(row(page, "still-active")).to_have_count(0)
    shared = open_page(page.url)
    expect(row(shared, "was-cancelled")).to_be_visible()
    expect(row(shared, "still-active")).to_have_count(0)
    shared.get_by_role("button", name="Remove the filter Status failed, cancelled").click()
    expect(row(shared, "still-active")).to_be_visible()


def test_several_phases_and_days_are_filters(page: Page, submit: Submit) -> None:
    submit("by-day")
    expect(row(page, "by-day")).to_contain_text("Training")
    page.get_by_role("button", name="Filter", exact=True).click()
    page.get_by_role("button", name="Phase", exact=True).click()
    for phase in ("Training", "Recovering"):
        page.get_by_label(phase, exact=True).check()
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("training, recovering")).to_be_visible()
    expect(row(page, "by-day")).to_be_visible()
    page.get_by_role("button", name="Filter", exact=True).click()
    page.get_by_role("button", name="Submitted between").click()
    page.get_by_label("Last day").fill("2020-01-31")
    check_accessibility(page)
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("heading", name="No jobs match")).to_be_visible()
    expect(page).to_have_url(re.compile("until=2020-01-31"))
    page.get_by_role("button", name="Remove the filter Submitted until 2020-01-31").click()
    expect(row(page, "by-day")).to_be_visible()


def test_a_viewer_is_offered_no_change(page_as: Callable[[str], Page], submit: Submit) -> None:
    submit("read-only")
    page = page_as("viewer")
    row(page, "read-only").get_by_role("checkbox").check()
    expect(page.get_by_role("button", name="Compare")).to_be_visible()
    for name in ("Tag", re.compile("^Cancel")):
        expect(page.get_by_role("toolbar").get_by_role("button", name=name)).to_have_count(0)
    expect(page.get_by_role("link", name="New job")).to_have_count(0)


def test_a_watched_job_tells_when_it_ends(page: Page, submit: Submit, gate: Path) -> None:
    submit("watched")
    expect(row(page, "watched")).to_contain_text("Training")
    page.keyboard.press("j")
    page.keyboard.press("w")
    expect(page.get_by_text("Watching watched")).to_be_visible()
    watched = page.get_by_role("region", name="Watched jobs")
    expect(watched).to_contain_text("watched")
    expect(watched).to_contain_text("40")
    gate.touch()
    expect(page.get_by_text("watched completed")).to_be_visible()
    page.reload()
    expect(watched).to_contain_text("watched")


def test_the_browser_notifies_of_a_failed_job_while_the_page_is_hidden(
    page: Page, web_server: Server, gate: Path
) -> None:
    page.context.grant_permissions(["notifications"])
    assert page.evaluate("Notification.requestPermission()") == "granted"
    page.evaluate(RECORD_NOTIFICATIONS)
    code = f"{GATED.format(gate=str(gate))}\nraise SystemExit('out of luck')"
    web_server.submit(code=code, name="unlucky")
    expect(row(page, "unlucky")).to_contain_text("Training")
    page.keyboard.press("j")
    page.keyboard.press("w")
    expect(page.get_by_role("region", name="Watched jobs")).to_contain_text("40")
    page.evaluate("Object.defineProperty(document, 'hidden', { get: () => true })")
    gate.touch()
    expect(page.get_by_role("region", name="Messages")).to_contain_text("unlucky failed")
    ((title, text),) = page.evaluate("window.notified")
    assert title == "unlucky failed"
    assert text


def test_the_list_goes_on_after_the_server_was_away(
    page: Page, web_server: Server, submit: Submit, gate: Path, guard: object
) -> None:
    guard.allow("ERR_CONNECTION|WebSocket")  # type: ignore[attr-defined]
    submit("survivor")
    expect(row(page, "survivor")).to_contain_text("Training")
    web_server.stop()
    expect(page.get_by_text("Not connected")).to_be_visible()
    web_server.start("--port", page.url.split(":")[2].split("/")[0])
    gate.touch()
    expect(row(page, "survivor")).to_contain_text("Completed", timeout=60_000)
