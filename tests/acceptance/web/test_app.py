"""The app as a whole: it opens, it is safe, and it loads little."""

from playwright.sync_api import Page, expect
from tests.acceptance.web.browser import PageGuard, check_accessibility, take_screenshot


def test_the_app_opens_in_a_browser(page: Page, guard: PageGuard) -> None:
    guard.allow("/api/v1/live")  # the route comes with the jobs view
    expect(page.get_by_role("navigation").first).to_be_visible()
    check_accessibility(page)
    take_screenshot(page, "jobs-empty")
