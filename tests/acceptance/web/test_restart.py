"""A page that is open while the server restarts shows every point and every line of the log exactly once."""

import re
import time
from pathlib import Path

from playwright.sync_api import Locator, Page, expect
from tests.acceptance.server.real_server import Server
from tests.acceptance.web.browser import PageGuard
from tests.acceptance.web.conftest import PageOpener

STEPS = 90
BEFORE, AWAY = 30, 60  # the last steps before the server stops, and before it starts again
LIMIT_MS = 60_000
SCROLLED_LINES = 10  # fewer than the page shows at once
# Each part waits for its gate and says when it is done.
SCRIPT = """
import pathlib, time, anygpu
folder = pathlib.Path({folder!r})
for step in range(1, {steps} + 1):
    anygpu.log(loss=1 / step, step=step)
    print(f"line {{step}}", flush=True)
    if step in {parts}:
        (folder / f"printed-{{step}}").touch()
        while not (folder / f"go-on-{{step}}").exists():
            time.sleep(0.05)
"""


def test_nothing_is_lost_or_repeated_when_the_server_restarts(
    web_server: Server, open_page: PageOpener, guard: PageGuard, tmp_path: Path
) -> None:
    guard.allow("ERR_CONNECTION_REFUSED|WebSocket connection|failed request|ERR_EMPTY_RESPONSE|answer 5")
    code = SCRIPT.format(folder=str(tmp_path), steps=STEPS, parts=(BEFORE, AWAY))
    job_id = web_server.submit(code=code, name="restarted")
    page = open_page(f"/jobs/{job_id}")
    expect_line(page, BEFORE)
    assert web_server.job(job_id)["status"] == "running"
    port = web_server.url.rpartition(":")[2]
    web_server.stop()
    expect(page.get_by_text("Not connected").first).to_be_visible(timeout=LIMIT_MS)
    (tmp_path / f"go-on-{BEFORE}").touch()
    wait_for_file(tmp_path / f"printed-{AWAY}")
    web_server.start("--port", port)
    expect(page.get_by_text("Live", exact=True)).to_be_visible(timeout=LIMIT_MS)
    expect_line(page, AWAY)
    assert web_server.job(job_id)["status"] == "running"
    (tmp_path / f"go-on-{AWAY}").touch()
    web_server.wait_ended(job_id, 120)
    expect(page.get_by_text("all output is here")).to_be_visible(timeout=LIMIT_MS)
    assert lines_of(page) == [f"line {step}" for step in range(1, STEPS + 1)]
    assert steps_of(page, "loss") == list(range(1, STEPS + 1))


def expect_line(page: Page, step: int) -> None:
    line = page.locator(".tx", has_text=re.compile(f"^line {step}$"))
    expect(line).to_be_visible(timeout=LIMIT_MS)


def wait_for_file(path: Path) -> None:
    end = time.monotonic() + LIMIT_MS / 1000
    while not path.exists():
        assert time.monotonic() < end, f"{path} was not written"
        time.sleep(0.05)


def lines_of(page: Page) -> list[str]:
    """Return all lines of the log, by scrolling through it."""
    expect(page.get_by_text(f"{STEPS} lines, ")).to_be_visible()
    log = page.get_by_role("region", name="Log, newest lines last")
    lines: dict[int, str] = {}
    for number in [*range(1, STEPS, SCROLLED_LINES), STEPS]:
        log.evaluate("(box, part) => { box.scrollTop = part * box.scrollHeight }", (number - 1) / STEPS)
        expect(log.locator(f"[data-line='{number}']")).to_be_visible()
        lines |= shown_lines(log)
    return [lines[number] for number in sorted(lines)]


def shown_lines(log: Locator) -> dict[int, str]:
    """Return the text of each line in the page, by its number."""
    rows = log.locator("[data-line]").evaluate_all(
        "(rows) => rows.map((row) => [row.dataset.line, row.querySelector('.tx').innerText])"
    )
    return {int(number): text for number, text in rows}


def steps_of(page: Page, metric: str) -> list[int]:
    """Return the steps of the points of a chart, from its table."""
    page.get_by_role("button", name=f"Enlarge {metric}").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Show the points as a table").click()
    expect(dialog.locator("tbody tr")).to_have_count(STEPS, timeout=LIMIT_MS)
    heads = dialog.locator("thead th").all_inner_texts()
    column = heads.index("Step")
    rows = dialog.locator("tbody tr").evaluate_all(
        "(rows) => rows.map((row) => [...row.cells].map((c) => c.innerText))"
    )
    return sorted(int(row[column].replace(",", "")) for row in rows)
