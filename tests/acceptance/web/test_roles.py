"""A viewer is offered no action that the server would refuse."""

import re
from collections.abc import Callable
from functools import partial
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, Page, Request, Route, TimeoutError, expect
from tests.acceptance.server.real_server import Server
from tests.acceptance.web.browser import PageGuard, settle
from tests.acceptance.web.conftest import PageOpener
from tests.acceptance.web.job_states import SampleJobs, create_sample_jobs, views

from anygpu.server.http.middleware import QUESTION_PATHS

MIN_PRESSES = 64  # half of those at the time of writing
FIELDS = "input:is([type=text], [type=password], :not([type])):visible, textarea:visible"
WITHOUT_ACTIONS = (
    "job-log",
    "job-plan",
    "job-events",
    "job-spec",
    "new-clone",
)  # or only those of other views
REFUSED = {"code": "refused", "detail": "This test changes nothing."}
NAMES = """
(elements) => elements
  .filter((each) => each.checkVisibility() && !each.disabled && each.ariaDisabled !== "true")
  .map((each) => each.ariaLabel ?? each.innerText.trim())
"""


@pytest.fixture(scope="module")
def jobs(web_server: Server) -> SampleJobs:
    return create_sample_jobs(web_server)


@pytest.mark.timeout(900)
def test_a_viewer_is_offered_nothing_that_would_be_refused(open_page: PageOpener, jobs: SampleJobs) -> None:
    page = open_page("/jobs", role="viewer")
    writes = refuse_writes(page)
    pressed = press_every_button(page, "/jobs", page.locator("body"))
    for name, path in views(jobs):
        if name in WITHOUT_ACTIONS:
            continue
        page.goto(path)
        settle(page)
        pressed += press_every_button(page, path, page.locator("main"))
    assert writes == []
    assert pressed >= MIN_PRESSES


@pytest.mark.extended
@pytest.mark.timeout(900)
def test_the_same_presses_of_an_operator_reach_actions_behind_menus_and_dialogs(
    open_page: PageOpener, guard: PageGuard, jobs: SampleJobs
) -> None:
    guard.allow("answer 409")
    page = open_page("/jobs")
    writes = refuse_writes(page)
    for path, within in (
        (f"/jobs/{jobs.running}", ".job-head"),
        (f"/jobs/{jobs.failed}", ".job-head"),
        ("/settings", "main"),
    ):
        page.goto(path)
        settle(page)
        press_every_button(page, path, page.locator(within))
    assert {
        f"POST /api/v1/training/{jobs.running}/cancel",  # behind a dialog
        f"DELETE /api/v1/training/{jobs.failed}",  # behind a menu and a dialog
        "POST /api/v1/tokens",  # behind a form
    } <= set(writes)


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


def refuse_writes(page: Page) -> list[str]:
    """Refuse all requests that change something, and return the list to which they are added."""
    writes: list[str] = []

    def answer(route: Route) -> None:
        if not is_write(route.request):
            return route.fallback()
        writes.append(f"{route.request.method} {urlsplit(route.request.url).path}")
        return route.fulfill(status=409, json=REFUSED)

    page.route("**/api/**", answer)
    return writes


def is_write(request: Request) -> bool:
    return request.method != "GET" and urlsplit(request.url).path not in QUESTION_PATHS


def press_every_button(page: Page, path: str, within: Locator) -> int:
    """Press every button of the view that can be pressed, every entry of the menus, and every button of the dialogs.

    Return how many buttons and entries of the view were pressed.
    """
    pressed = 0
    for name in names_of(within.get_by_role("button")):
        if name == "Sign out" or not press(page, path, within, name):
            continue
        pressed += 1
        press_dialog(page, partial(press, page, path, within, name))
        for entry in names_of(page.get_by_role("menuitem")):
            if not press_entry(page, path, within, name, entry):
                break
            pressed += 1
            press_dialog(page, partial(press_entry, page, path, within, name, entry))
    settle(page)
    return pressed


def press_entry(page: Page, path: str, within: Locator, name: str, entry: str) -> bool:
    """Press an entry of the menu of a button. Return False if there is none."""
    found = page.get_by_role("menuitem", name=entry, exact=True).first
    if not found.is_visible() and not press(page, path, within, name):
        return False
    if not found.is_visible():
        return False
    found.click()
    return True


def press_dialog(page: Page, reopen: Callable[[], bool]) -> None:
    """Press every button of the dialog that opened, if one did, with something in each of its fields."""
    dialog = open_dialog(page)
    if not dialog.is_visible():
        return
    for name in names_of(dialog.get_by_role("button")):
        button = dialog.get_by_role("button", name=match_name(name), exact=True).first
        if not button.is_visible() and not reopen():
            return
        for field in dialog.locator(FIELDS).all():
            field.fill("x")
        if button.is_visible() and button.is_enabled():
            button.click()


def match_name(name: str) -> str | re.Pattern[str]:
    """Return what finds a button by its name, although a time in it, such as "38 s ago", changes meanwhile."""
    if not name.endswith((" ago", "just now")):
        return name
    words = " ".join(name.split())
    return re.compile(
        f"^{re.escape(re.sub('(just now|([0-9]+ [smhd] )+ago)$', '', words))}(just now|.* ago)$"
    )


def open_dialog(page: Page) -> Locator:
    return page.get_by_role("dialog").or_(page.get_by_role("alertdialog")).first


def names_of(found: Locator) -> list[str]:
    """Return the different names of the elements that are shown and not disabled."""
    names: list[str] = found.evaluate_all(NAMES)
    return list(dict.fromkeys(names))


def press(page: Page, path: str, within: Locator, name: str) -> bool:
    """Press a button of the view, which is loaded again if it changed. Return False if it has no such button."""
    button = within.get_by_role("button", name=name, exact=True).first
    page.keyboard.press("Escape")
    if open_dialog(page).is_visible() or not can_be_pressed(button):
        page.goto(path)
        settle(page)
    if not can_be_pressed(button):
        return False
    try:
        button.click()
    except TimeoutError:
        if can_be_pressed(button):
            raise
        return False  # the view replaced it meanwhile
    return True


def can_be_pressed(button: Locator) -> bool:
    return button.is_visible() and button.is_enabled()
