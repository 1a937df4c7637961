"""A viewer is offered no action that the server would refuse."""

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, Page, Request, TimeoutError, expect
from tests.acceptance.server.real_server import Server
from tests.acceptance.web.browser import settle
from tests.acceptance.web.conftest import PageOpener
from tests.acceptance.web.job_states import SampleJobs, create_sample_jobs, views

from anygpu.server.http.middleware import QUESTION_PATHS

PRESS_MS = 2000
WITHOUT_ACTIONS = (
    "job-log",
    "job-plan",
    "job-events",
    "job-spec",
    "new-clone",
)  # or only those of other views
NAMES = """
(elements) => elements
  .filter((each) => each.checkVisibility() && !each.disabled && each.ariaDisabled !== "true")
  .map((each) => each.ariaLabel ?? each.innerText.trim())
"""


@pytest.fixture(scope="module")
def jobs(web_server: Server) -> SampleJobs:
    return create_sample_jobs(web_server)


def test_a_viewer_is_offered_nothing_that_would_be_refused(open_page: PageOpener, jobs: SampleJobs) -> None:
    page = open_page("/jobs", role="viewer")
    writes: list[str] = []
    page.on("request", lambda request: writes.append(request.url) if is_write(request) else None)
    press_every_button(page, "/jobs", page.locator("body"))
    for name, path in views(jobs):
        if name in WITHOUT_ACTIONS:
            continue
        page.goto(path)
        settle(page)
        press_every_button(page, path, page.locator("main"))
    assert writes == []


def test_a_member_acts_on_a_job_in_its_header(
    open_page: PageOpener, web_server: Server, jobs: SampleJobs
) -> None:
    page = open_page(f"/jobs/{jobs.running}", role="member")
    header = page.locator("main")
    for name in ("Cancel", "More actions"):
        expect(header.get_by_role("button", name=name, exact=True).first).to_be_visible()
    header.get_by_role("button", name="Cancel", exact=True).first.click()
    page.get_by_role("button", name="Cancel the job").click()
    assert web_server.wait_ended(jobs.running)["status"] == "cancelled"


def is_write(request: Request) -> bool:
    return request.method != "GET" and urlsplit(request.url).path not in QUESTION_PATHS


def press_every_button(page: Page, path: str, within: Locator) -> None:
    """Press every button of the view that can be pressed, and every entry of the menus that open."""
    for name in names_of(within.get_by_role("button")):
        if name == "Sign out" or not press(page, path, within, name):
            continue
        for entry in names_of(page.get_by_role("menuitem")):
            page.get_by_role("menuitem", name=entry, exact=True).first.click()
            page.keyboard.press("Escape")
            if not press(page, path, within, name):
                break
        page.keyboard.press("Escape")


def names_of(found: Locator) -> list[str]:
    """Return the different names of the elements that are shown and not disabled."""
    names: list[str] = found.evaluate_all(NAMES)
    return list(dict.fromkeys(names))


def press(page: Page, path: str, within: Locator, name: str) -> bool:
    """Press a button of the view. Return False if the view no longer has it."""
    if urlsplit(page.url).path != urlsplit(path).path:
        page.goto(path)
        settle(page)
    button = within.get_by_role("button", name=name, exact=True).first
    if not button.is_visible() or not button.is_enabled():
        return False
    try:
        button.click(timeout=PRESS_MS)
    except TimeoutError:  # the view replaced it meanwhile
        return False
    return True
