"""The app as a whole: signing in, what it loads, and that it stays on the server's origin."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tests.acceptance.web.browser import PageGuard, check_accessibility, settle, take_screenshot
from tests.acceptance.web.conftest import Logins, PageOpener

EDITOR = "CodeEditor"
FIRST_LOAD_BYTES = 250 * 1024
LOADED = """
() => performance.getEntriesByType("resource")
  .filter((each) => /[.](js|css)$/.test(new URL(each.name).pathname))
  .map((each) => ({ name: new URL(each.name).pathname, bytes: each.encodedBodySize }))
"""
INLINE_SCRIPT = """
() => {
  const script = document.createElement("script");
  script.textContent = "window.inlineRan = true";
  document.head.append(script);
  const button = document.createElement("button");
  button.setAttribute("onclick", "window.attributeRan = true");
  document.body.append(button);
  button.click();
  return [window.inlineRan, window.attributeRan];
}
"""


def test_a_login_link_signs_in_one_browser_and_opens_the_wanted_page(
    open_page: PageOpener, logins: Logins, guard: PageGuard
) -> None:
    guard.allow("answer 401")
    link = logins.link("member")
    page = open_page("/jobs", role=None)
    expect(page.get_by_role("heading", name="Sign in to anygpu")).to_be_visible()
    check_accessibility(page)
    take_screenshot(page, "sign-in")
    page.goto(f"{link}?next=/queue")
    expect(page).to_have_url(re.compile("/queue$"))
    expect(page.get_by_role("link", name="Queue")).to_have_attribute("aria-current", "page")

    second = open_page(link, role=None)
    expect(second.get_by_text("was used before or has expired")).to_be_visible()
    second.goto("/jobs")
    expect(second.get_by_role("heading", name="Sign in to anygpu")).to_be_visible()


def test_the_policy_stops_inline_scripts_and_eval(page: Page, guard: PageGuard) -> None:
    guard.allow("Content Security Policy")
    expect(page.get_by_role("link", name="Jobs", exact=True)).to_be_visible()
    assert page.evaluate(INLINE_SCRIPT) == [None, None]
    # Chromium evaluates what a test sends without the policy, but not what the page's own code evaluates later.
    evaluated = "() => new Promise((done) => setTimeout(() => { try { done(eval('1')) } catch (e) { done(e.name) } }))"
    assert page.evaluate(evaluated) == "EvalError"
    assert any("inline" in each for each in guard.found)


def test_the_first_load_is_small_and_has_no_editor(open_page: PageOpener) -> None:
    page = open_page("/jobs")
    expect(page.get_by_role("link", name="Jobs", exact=True)).to_be_visible()
    settle(page)
    loaded: list[dict[str, Any]] = page.evaluate(LOADED)
    total = sum(each["bytes"] for each in loaded)
    assert 0 < total <= FIRST_LOAD_BYTES, loaded
    assert not [each for each in loaded if EDITOR in each["name"]]
    page.goto("/new")
    expect(page.locator(".cm-content")).to_be_visible()
    assert [each for each in page.evaluate(LOADED) if EDITOR in each["name"]]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_colour_scheme_of_the_system_is_used(open_page: PageOpener, dark: bool) -> None:
    page = open_page("/jobs", dark=dark)
    expect(page.get_by_role("link", name="Jobs", exact=True)).to_be_visible()
    red, green, blue = _background(page)
    assert (red + green + blue < 200) == dark


def _background(page: Page) -> tuple[int, int, int]:
    text = page.evaluate("getComputedStyle(document.body).backgroundColor")
    numbers = [int(float(part)) for part in text.partition("(")[2].rstrip(")").split(",")[:3]]
    return numbers[0], numbers[1], numbers[2]


def test_an_unknown_path_of_the_app_leads_back(open_page: PageOpener) -> None:
    page = open_page("/settings/no/such/page")
    expect(page.get_by_role("link", name="All jobs")).to_be_visible()
    take_screenshot(page, "not-found")
    check_accessibility(page)
