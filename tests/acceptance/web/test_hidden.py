"""A tab that is not shown closes its connection, also if it never was shown."""

import re
import time
from pathlib import Path

from playwright.sync_api import Page, Request, expect
from tests.acceptance.server.real_server import Server
from tests.acceptance.web.conftest import PageOpener

LIMIT_MS = 60_000
HIDDEN = """
window.isHidden = true;
Object.defineProperty(document, "hidden", { get: () => window.isHidden });
window.sockets = 0;
window.WebSocket = class extends WebSocket {
  constructor(...words) {
    super(...words);
    window.sockets += 1;
  }
};
"""
GATED = """
import pathlib, time
while not pathlib.Path({gate!r}).exists():
    time.sleep(0.05)
"""


def hide(page: Page) -> None:
    """Open the page again as a browser does in the background, with a clock that the test moves."""
    page.add_init_script(HIDDEN)
    page.clock.install()
    page.reload()


def connection(page: Page, word: str) -> None:
    expect(page.locator("aside").get_by_text(word, exact=True)).to_be_visible(timeout=LIMIT_MS)


def test_a_tab_that_was_never_shown_closes_its_connection_until_it_is_shown(open_page: PageOpener) -> None:
    page = open_page("/jobs")
    hide(page)
    connection(page, "Live")
    page.clock.fast_forward("01:01")
    connection(page, "Paused")
    sockets = page.evaluate("window.sockets")
    page.evaluate("window.dispatchEvent(new Event('online'))")
    assert page.evaluate("window.sockets") == sockets
    connection(page, "Paused")
    page.evaluate("window.isHidden = false; document.dispatchEvent(new Event('visibilitychange'))")
    connection(page, "Live")
    page.clock.fast_forward("01:01")
    assert page.evaluate("window.sockets") > sockets
    connection(page, "Live")


def test_a_hidden_tab_looks_at_watched_jobs_until_they_have_ended(
    open_page: PageOpener, web_server: Server, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    ended = web_server.submit(code="print('done')", name="ended")
    web_server.wait_ended(ended, 60)
    running = web_server.submit(code=GATED.format(gate=str(gate)), name="running")
    page = open_page("/jobs")
    for job_id in (ended, running):
        page.goto(f"/jobs/{job_id}")
        expect(page.get_by_role("heading", level=1)).to_be_visible(timeout=LIMIT_MS)
        page.keyboard.press("w")
        expect(page.get_by_text(re.compile("^Watching (ended|running)$"))).to_be_visible(timeout=LIMIT_MS)
    page.goto("/costs")
    hide(page)
    watched = page.get_by_role("region", name="Watched jobs")
    expect(watched).to_contain_text("ended", timeout=LIMIT_MS)
    expect(watched).to_contain_text("running")
    connection(page, "Live")
    page.clock.fast_forward("01:01")
    connection(page, "Paused")
    requests: list[str] = []

    def note(request: Request) -> None:
        requests.append(request.url)

    page.on("request", note)
    end = time.monotonic() + LIMIT_MS / 1000
    while len([each for each in requests if running in each]) < 2:
        assert time.monotonic() < end, f"the running job was not read: {requests}"
        page.clock.fast_forward("01:01")
        page.wait_for_timeout(100)
    assert not [each for each in requests if ended in each]
    gate.touch()
