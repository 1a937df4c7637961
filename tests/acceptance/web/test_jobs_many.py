"""The list of jobs with a job in every state, and with ten thousand rows."""

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tests.acceptance.server.real_server import Server
from tests.acceptance.web.browser import (
    check_accessibility,
    longest_allowed_ms,
    record_tasks,
    take_screenshot,
)
from tests.acceptance.web.conftest import PageOpener
from tests.acceptance.web.sample_jobs import fill_with_ended_jobs, fill_with_sample_jobs

MANY = 10_000
SCREENS = [("desktop", False), ("desktop", True), ("laptop", False), ("phone", False), ("phone", True)]
LOADED_WITHIN_S = 60
SCROLL_THROUGH = """
async () => {
  const pause = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 10)));
  for (let step = 0; step < 40; step += 1) {
    window.scrollTo(0, (step / 40) * document.documentElement.scrollHeight);
    await pause();
  }
}
"""


@pytest.fixture(scope="module")
def web_server(tmp_path_factory: pytest.TempPathFactory, built_app: None) -> Iterator[Server]:
    """A server whose jobs were stored before it started; nothing runs them."""
    folder = tmp_path_factory.mktemp("web")
    fill_with_ended_jobs(folder / "state", MANY)
    fill_with_sample_jobs(folder / "state")
    server = Server(
        folder,
        ANYGPU_SERVER__CONTROL="false",
        ANYGPU_LIMITS__REQUESTS_PER_S="0",
        ANYGPU_LIMITS__PAGE_JOBS="1000",
    )
    yield server
    server.stop()


@pytest.mark.parametrize(("screen", "dark"), SCREENS)
def test_every_state_is_shown_and_accessible(open_page: PageOpener, screen: str, dark: bool) -> None:
    page = open_page("/jobs?submitted=7d", screen=screen, dark=dark)
    table = page.get_by_role("table", name="Jobs")
    expect(table).to_contain_text("resnet50-in1k-160")
    expect(table).to_contain_text("Recovering")
    expect(table).to_contain_text("Held")
    check_accessibility(page)
    take_screenshot(page, f"jobs-{screen}-{'dark' if dark else 'light'}")


SCROLL_TO_ROW = """
(wanted) => {
  window.scrollTo(0, document.documentElement.scrollHeight);
  const rows = [...document.querySelectorAll("tr[data-job]")].map((each) => Number(each.dataset.index));
  return Math.max(...rows) > wanted;
}
"""


def load_all(page: Page, count: int) -> None:
    """Scroll to the end until so many rows are loaded."""
    end = time.monotonic() + LOADED_WITHIN_S
    while True:
        page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight)")
        loaded = page.get_by_role("table", name="Jobs").get_attribute("aria-rowcount")
        if loaded is not None and int(loaded) >= count:
            return
        assert time.monotonic() < end, f"{loaded} of {count} rows were loaded within {LOADED_WITHIN_S} s"
        page.wait_for_timeout(30)


def test_ten_thousand_rows_cause_no_long_task(open_page: PageOpener, web_server: Server) -> None:
    page = open_page("/jobs")
    expect(page.get_by_role("table", name="Jobs")).to_contain_text("resnet50-in1k-160")
    load_all(page, MANY)
    with record_tasks(page) as tasks:
        page.evaluate(SCROLL_THROUGH)
        page.evaluate("window.scrollTo(0, 0)")
        page.keyboard.press("j")
        page.keyboard.press("x")
        expect(page.get_by_text("1 selected")).to_be_visible()
        change_one(web_server)
        expect(page.get_by_role("table", name="Jobs")).to_contain_text("just-edited")
    assert page.locator("tr[data-job]").count() < 100
    assert max(tasks) < longest_allowed_ms(page), sorted(tasks)[-5:]


def test_selecting_all_rows_says_how_many_can_be_selected(open_page: PageOpener) -> None:
    page = open_page("/jobs?status=cancelled")
    expect(page.get_by_role("table", name="Jobs")).to_be_visible()
    page.wait_for_function(SCROLL_TO_ROW, arg=250)
    page.evaluate("window.scrollTo(0, 0)")
    page.get_by_role("checkbox", name="Select all loaded jobs").click()
    expect(page.get_by_text(re.compile(r"200 of \d+ loaded jobs are selected"))).to_be_visible()
    expect(page.get_by_text("200 selected, the most at once")).to_be_visible()
    page.get_by_role("checkbox", name="Select all loaded jobs").click()
    expect(page.get_by_text("200 selected, the most at once")).to_have_count(0)


IS_UNCOVERED = """
() => {
  const [row, head, bar] = ["tr.cur", ".jobs thead th", ".selbar"].map(
    (each) => document.querySelector(each).getBoundingClientRect(),
  );
  return head.bottom - 1 <= row.top && row.bottom <= bar.top + 1;
}
"""


def test_the_bars_do_not_cover_the_row_that_the_keys_chose(open_page: PageOpener) -> None:
    page = open_page("/jobs")
    expect(page.get_by_role("table", name="Jobs")).to_contain_text("resnet50-in1k-160")
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.get_by_text("1 selected")).to_be_visible()
    for key, presses in (("j", 40), ("k", 35)):
        for _ in range(presses):
            page.keyboard.press(key)
        expect(page.locator("tr.cur a")).to_be_focused()
        page.wait_for_function(IS_UNCOVERED, timeout=LOADED_WITHIN_S * 1000)


def change_one(server: Server) -> dict[str, Any]:
    newest = server.ask("GET", "/api/v1/training?status=active&limit=1").json["jobs"][0]
    answer = server.ask("PATCH", f"/api/v1/training/{newest['id']}", {"name": "just-edited"})
    assert answer.status == 200, answer.data
    found: dict[str, Any] = answer.json
    return found
