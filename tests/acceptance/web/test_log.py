"""The log viewer: a million lines, search, follow, and text that stays text."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, Page, Route, WebSocketRoute, expect
from tests.acceptance.server.real_server import Server
from tests.acceptance.web.browser import (
    PageGuard,
    check_accessibility,
    longest_allowed_ms,
    record_tasks,
    settle,
    take_screenshot,
)
from tests.acceptance.web.conftest import PageOpener

LINES = 1_000_000
LIVE_LIMIT_MS = 60_000  # for output that a job has still to print
MILLION = f"""
import sys
for start in range(1, {LINES + 1}, 10_000):
    sys.stdout.write("".join(f"step {{n}} loss={{1 / n:.6f}}\\n" for n in range(start, start + 10_000)))
"""
HOSTILE = r"""
import sys
print("<img src=x onerror=window.hacked=1><script>window.hacked=1</script>")
print("\x1b[31mred\x1b[0m \x1b[1;38;5;46mgreen\x1b[0m \x1b]0;title\x07plain\x1b[2J\x1b[10A")
print("\x1b]8;;javascript:window.hacked=1\x07link\x1b]8;;\x07")
print("\u202egnp.exe")
for percent in range(101):
    sys.stdout.write(f"\rEpoch 1/1 {percent}%|{'#' * (percent // 10):10}|")
sys.stdout.write("\n")
sys.stdout.flush()
sys.stdout.buffer.write(b"\xff\xfe broken\n" + b"z" * 20000 + b"\n")
print("the end")
"""
TICKS = """
import time
for number in range(6000):
    print(f"tick {number}.", flush=True)
    time.sleep(0.1)
"""
BUSY = {
    "title": "Store busy",
    "status": 503,
    "code": "store_busy",
    "detail": "The database is busy.",
    "retryable": True,
}
# Goes on when its gate appears, and then waits to be cancelled.
GATED = """
import pathlib, time
print({before!r}, end="", flush=True)
while not pathlib.Path({gate!r}).exists():
    time.sleep(0.05)
print({after!r}, end="", flush=True)
while True:
    time.sleep(1)
"""
# Moves the log as a person with a wheel and a scroll bar does, one movement a frame.
SCROLL = """
async (element) => {
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  for (let step = 0; step < 120; step += 1) { element.scrollTop -= 240; await frame(); }
  for (let step = 0; step <= 60; step += 1) {
    element.scrollTop = (element.scrollHeight - element.clientHeight) * (1 - step / 60);
    await frame();
  }
  for (let step = 0; step < 120; step += 1) { element.scrollTop += 240; await frame(); }
}
"""


@pytest.fixture(scope="module")
def million(web_server: Server) -> str:
    job_id = web_server.submit(code=MILLION, name="million")
    assert web_server.wait_ended(job_id, 240)["status"] == "completed"
    return job_id


def open_log(open_page: PageOpener, job_id: str, query: str = "", **options: object) -> tuple[Page, Locator]:
    page = open_page(f"/jobs/{job_id}?tab=log{query}", **options)  # type: ignore[arg-type]
    return page, page.get_by_role("region", name="Log, newest lines last")


def line(log: Locator, number: int) -> Locator:
    return log.locator(f"[data-line='{number}']")


def test_a_million_lines_scroll_without_a_long_task(open_page: PageOpener, million: str) -> None:
    page, log = open_log(open_page, million)
    expect(line(log, LINES)).to_contain_text("step 1000000 loss=0.000001")
    expect(page.get_by_text("1,000,000 lines")).to_be_visible()
    settle(page)
    with record_tasks(page) as tasks:
        log.evaluate(SCROLL)
        assert log.locator(".ln").count() < 200
        log.focus()
        page.keyboard.press("Home")
        expect(line(log, 1)).to_contain_text("step 1 loss=1.000000")
        page.keyboard.press("End")
        expect(line(log, LINES)).to_be_visible()
    assert max(tasks) < longest_allowed_ms(page)


def test_a_search_counts_the_hits_and_goes_to_them(
    open_page: PageOpener, million: str, guard: PageGuard
) -> None:
    guard.allow("answer 422")
    page, log = open_log(open_page, million)
    expect(line(log, LINES)).to_be_visible()
    field = page.get_by_role("searchbox", name="Search the log")
    field.fill("STEP 77777")
    expect(page.get_by_text("11 hits")).to_be_visible()
    field.press("Enter")
    expect(page.get_by_text("11 of 11")).to_be_visible()
    expect(line(log, 777_779)).to_be_visible()
    expect(line(log, 777_779).locator("mark")).to_have_text("step 77777")
    page.get_by_role("button", name="Previous hit").click()
    expect(line(log, 777_778)).to_have_class("ln current")
    for _ in range(9):
        page.get_by_role("button", name="Previous hit").click()
    expect(line(log, 77_777)).to_be_visible()
    expect(page.get_by_text("1 of 11")).to_be_visible()
    expect(page.get_by_role("button", name="Previous hit")).to_be_disabled()
    expect(page).to_have_url(re.compile("find="))
    take_screenshot(page, "log-search")
    page.get_by_role("button", name="Regular expression").click()
    field.fill(r"^step \d99999 ")
    expect(page.get_by_text("9 hits")).to_be_visible()
    field.fill("(")
    expect(page.get_by_text("not valid")).to_be_visible()


def test_a_search_that_finds_nothing_in_its_time_goes_on(open_page: PageOpener, million: str) -> None:
    page, log = open_log(open_page, million)
    expect(line(log, LINES)).to_be_visible()
    starts: list[int] = []

    def answer(route: Route) -> None:
        (before,) = parse_qs(urlsplit(route.request.url).query)["before"]
        starts.append(int(before))
        if len(starts) < 3:  # as after a second in a very large log
            nothing = {
                "attempt": 1,
                "hits": [],
                "total": 0,
                "truncated": True,
                "next": LINES // 2 ** len(starts),
            }
            route.fulfill(json=nothing)
        else:
            route.continue_()

    page.route(re.compile("/logs/search"), answer)
    page.get_by_role("searchbox", name="Search the log").fill("step 77777 ")
    expect(page.get_by_text("1 hit", exact=True)).to_be_visible(timeout=LIVE_LIMIT_MS)
    assert starts[1:] == [LINES // 2, LINES // 4]
    page.get_by_role("button", name="Next hit").click()
    expect(line(log, 77_777)).to_have_class("ln current")


def test_the_search_field_has_the_text_of_the_address_after_going_back(
    open_page: PageOpener, million: str
) -> None:
    page, log = open_log(open_page, million)
    expect(line(log, LINES)).to_be_visible()
    field = page.get_by_role("searchbox", name="Search the log")
    field.fill("STEP 77777")
    expect(page).to_have_url(re.compile("find="))
    page.evaluate("history.pushState(history.state, '', location.pathname + '?tab=log&find=other')")
    page.evaluate("window.dispatchEvent(new PopStateEvent('popstate', {state: history.state}))")
    expect(field).to_have_value("other")
    page.go_back()
    expect(field).to_have_value("STEP 77777")


def test_the_overview_shows_the_end_of_the_log_in_a_small_panel(open_page: PageOpener, million: str) -> None:
    page = open_page(f"/jobs/{million}")
    log = page.get_by_role("region", name="Log, newest lines last")
    expect(line(log, LINES)).to_contain_text("step 1000000 ")
    box = log.bounding_box()
    assert box is not None
    assert 300 <= box["height"] < 700


def test_a_link_opens_the_log_at_a_line(open_page: PageOpener, million: str) -> None:
    page, log = open_log(open_page, million, "&line=500000")
    expect(line(log, 500_000)).to_have_class("ln current")
    expect(line(log, 500_000)).to_contain_text("step 500000 ")
    line(log, 500_003).get_by_role("button").click()
    expect(page).to_have_url(re.compile("line=500003"))


def test_new_lines_appear_once_while_following(
    open_page: PageOpener, web_server: Server, tmp_path: Path
) -> None:
    code = f"""
import pathlib, time
gates = {{42: "first", 102: "second"}}
for n in range(1, 103):
    print(f"tick {{n}}", end="" if n % 2 else "\\n", flush=True)
    time.sleep(0.05)
    while n in gates and not (pathlib.Path({str(tmp_path)!r}) / gates[n]).exists():
        time.sleep(0.05)
"""
    job_id = web_server.submit(code=code, name="ticking")
    page, log = open_log(open_page, job_id)
    expect(log.get_by_text("tick 41tick 42", exact=True)).to_be_visible(timeout=LIVE_LIMIT_MS)
    follow = page.get_by_role("switch", name="Follow")
    expect(follow).to_be_checked()
    page.keyboard.press("f")
    expect(follow).not_to_be_checked()
    (tmp_path / "first").touch()
    expect(page.get_by_role("button", name=re.compile("new line"))).to_be_visible(timeout=LIVE_LIMIT_MS)
    page.keyboard.press("f")
    expect(log.get_by_text("tick 101tick 102", exact=True)).to_be_visible(timeout=LIVE_LIMIT_MS)
    assert web_server.job(job_id)["status"] == "running"
    (tmp_path / "second").touch()
    web_server.wait_ended(job_id, 60)
    expect(page.get_by_text("all output is here")).to_be_visible(timeout=LIVE_LIMIT_MS)
    log.focus()
    page.keyboard.press("Home")
    expect(line(log, 1)).to_be_visible()
    shown = log.locator(".tx").all_inner_texts()
    texts = [text for text in shown if re.fullmatch(r"tick \d+tick \d+", text)]
    assert len(texts) == 51
    assert texts == [f"tick {2 * n - 1}tick {2 * n}" for n in range(1, len(texts) + 1)]


def test_hostile_output_stays_text(
    open_page: PageOpener, web_server: Server, screenshots: Callable[[Page, str], None]
) -> None:
    job_id = web_server.submit(code=HOSTILE, name="hostile")
    web_server.wait_ended(job_id)
    page, log = open_log(open_page, job_id)
    expect(line(log, 1)).to_contain_text("<img src=x onerror=window.hacked=1><script>")
    expect(line(log, 2).locator(".tx")).to_have_text("red green plain")
    expect(line(log, 2).locator(".t-red")).to_have_text("red")
    expect(line(log, 2).locator(".t-green.t-bold")).to_have_text("green")
    expect(line(log, 3).locator(".tx")).to_have_text("link")
    expect(line(log, 4).locator(".tx")).to_have_text("\ufffdgnp.exe")
    expect(line(log, 5).locator(".tx")).to_have_text("Epoch 1/1 100%|##########|")
    expect(line(log, 6).locator(".tx")).to_have_text("\ufffd\ufffd broken")
    expect(line(log, 7).get_by_role("link")).to_have_attribute("href", re.compile("offset="))
    expect(line(log, 8).locator(".tx")).to_have_text("the end")
    expect(log.locator("img, script, a[href^=javascript]")).to_have_count(0)
    assert page.evaluate("window.hacked") is None
    screenshots(page, "log")
    page.goto(f"/jobs/{job_id}")
    page.get_by_role("heading", name="Log").scroll_into_view_if_needed()
    expect(line(log, 8)).to_be_visible()
    take_screenshot(page, "log-overview")


def test_selected_lines_are_copied_without_numbers(open_page: PageOpener, million: str) -> None:
    page, log = open_log(open_page, million, "&line=1000")
    expect(line(log, 1001)).to_contain_text("step 1001 ")
    settle(page)
    copied = page.evaluate(
        """() => {
          const text = (number) => document.querySelector(`[data-line='${number}'] .tx`);
          const selection = getSelection();
          selection.setBaseAndExtent(text(1000).firstChild, 0, text(1001).firstChild, 9);
          return selection.toString();
        }"""
    )
    assert copied == "step 1000 loss=0.001000\nstep 1001"
    log.evaluate("(element) => { element.scrollTop += 12000; }")
    expect(line(log, 1600)).to_be_attached()
    expect(line(log, 1000)).to_be_attached()
    log.focus()
    page.keyboard.press("End")
    expect(line(log, LINES)).to_be_in_viewport()
    assert page.evaluate("getSelection().toString()") == copied
    assert log.locator(".ln").count() < 200
    page.keyboard.press("Home")
    expect(line(log, 1)).to_be_in_viewport()
    assert page.evaluate("getSelection().toString()") == copied
    assert log.locator(".ln").count() < 200


@pytest.fixture
def screenshots(open_page: PageOpener) -> Callable[[Page, str], None]:
    """Store a page in light and dark colours and on a phone, and check each for accessibility."""

    def take(page: Page, name: str) -> None:
        address = page.evaluate("location.pathname + location.search")
        for look, options in {
            "light": {},
            "dark": {"dark": True},
            "phone": {"screen": "phone"},
        }.items():
            shown = open_page(address, **options)  # type: ignore[arg-type]
            expect(shown.locator(".ln").last).to_be_visible()
            shown.locator(".logs").evaluate("(panel) => panel.scrollIntoView({ block: 'center' })")
            check_accessibility(shown)
            take_screenshot(shown, f"{name}-{look}")

    return take


def test_the_log_goes_on_with_the_next_attempt_and_earlier_ones_can_be_chosen(
    open_page: PageOpener, web_server: Server, tmp_path: Path
) -> None:
    code = f"""
import os, pathlib, time
killed, go = pathlib.Path({str(tmp_path / "killed")!r}), pathlib.Path({str(tmp_path / "go")!r})
print("second attempt" if killed.exists() else "first attempt", flush=True)
while not go.exists():
    time.sleep(0.05)
if not killed.exists():
    killed.touch()
    os.kill(os.getpid(), 9)
"""
    job_id = web_server.submit(code=code, name="killed-once", env={"PYTHONUNBUFFERED": "1"})
    page, log = open_log(open_page, job_id)
    expect(log.get_by_text("first attempt", exact=True)).to_be_visible()
    (tmp_path / "go").touch()
    expect(log.get_by_text("second attempt", exact=True)).to_be_visible()
    assert web_server.wait_ended(job_id, 60)["status"] == "completed"
    page.get_by_role("button", name="Attempt 2").click()
    page.get_by_role("menuitem", name=re.compile("Attempt 1")).click()
    expect(log.get_by_text("first attempt", exact=True)).to_be_visible()
    expect(log.get_by_text("second attempt", exact=True)).to_have_count(0)
    expect(page).to_have_url(re.compile("log=1"))
    page.get_by_role("button", name="Attempt 1").click()
    page.get_by_role("menuitem", name=re.compile("Attempt 2")).click()
    expect(page).not_to_have_url(re.compile("log="))
    line(log, 1).get_by_role("button").click()
    expect(page).to_have_url(re.compile("log=2&line=1"))
    expect(line(log, 1)).to_have_class("ln current")
    expect(log.get_by_text("second attempt", exact=True)).to_be_visible()


@pytest.mark.extended
def test_a_log_goes_on_after_a_temporary_problem_of_the_server(
    web_server: Server, open_page: PageOpener
) -> None:
    job_id = web_server.submit(code=TICKS, name="ticks")
    web_server.wait(job_id, lambda job: job["phase"] == "training", 60)
    refused: list[str] = []

    def connect(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        def forward(text: str | bytes) -> None:
            message = json.loads(text)
            if message.get("include") != ["logs"] or len(refused) >= 4:
                server.send(text)
                return
            refused.append(message["id"])
            socket.send(json.dumps({"id": message["id"], "problem": BUSY}))

        socket.on_message(forward)

    page = open_page("/queue")
    page.route_web_socket(re.compile("/api/v1/live$"), connect)
    page.goto(f"{page.url.removesuffix('/queue')}/jobs/{job_id}?tab=log")
    banner = page.locator(".banner")
    expect(banner).to_contain_text("Some live updates are late. The database is busy.")
    expect(page.get_by_text("Partly live")).to_be_visible()
    take_screenshot(page, "live-trouble")
    expect(page.get_by_text("all output is here")).to_have_count(0)
    last = web_server.ask("GET", f"/api/v1/training/{job_id}/logs/lines?from=-1").json["total_lines"]
    end = time.monotonic() + LIVE_LIMIT_MS / 1000
    while newest_tick(page) < last + 20:
        assert time.monotonic() < end, "the log does not go on"
        page.wait_for_timeout(50)
    expect(banner).to_have_count(0)
    assert len(refused) == 4
    web_server.ask("POST", f"/api/v1/training/{job_id}/cancel")
    expect(page.get_by_text("all output is here")).to_be_visible()


def newest_tick(page: Page) -> int:
    return max(
        (int(each) for each in re.findall(r"tick (\d+)", page.locator(".logs").inner_text())), default=0
    )


def answer_busy(page: Page, path: str, is_busy: Callable[[], bool]) -> None:
    """Answer requests with a temporary problem while `is_busy`."""

    def answer(route: Route) -> None:
        if is_busy():
            route.fulfill(status=503, json=BUSY, content_type="application/problem+json")
        else:
            route.continue_()

    page.route(re.compile(path), answer)


@pytest.mark.extended
def test_a_search_goes_on_after_temporary_problems_and_in_unfinished_lines(
    open_page: PageOpener, web_server: Server, guard: PageGuard, tmp_path: Path
) -> None:
    guard.allow("answer 503: GET .*/logs/search")
    code = GATED.format(
        gate=str(tmp_path / "gate"), before="epoch 1\nepoch 2\nep", after="och 3\nepoch 4\nend\n"
    )
    job_id = web_server.submit(code=code, name="searched")
    page, log = open_log(open_page, job_id)
    expect(log.get_by_text("ep", exact=True)).to_be_visible(timeout=LIVE_LIMIT_MS)
    is_busy = True

    answer_busy(page, "/logs/search", lambda: is_busy)
    field = page.get_by_role("searchbox", name="Search the log")
    field.fill("epoch")
    expect(page.get_by_text("search failed")).to_be_visible(timeout=LIVE_LIMIT_MS)
    expect(field).to_have_attribute("aria-invalid", "false")
    is_busy = False
    expect(page.get_by_text("2 hits")).to_be_visible(timeout=LIVE_LIMIT_MS)
    is_busy = True
    (tmp_path / "gate").touch()
    expect(log.get_by_text("end", exact=True)).to_be_visible(timeout=LIVE_LIMIT_MS)
    expect(page.get_by_text("search failed")).to_be_visible(timeout=LIVE_LIMIT_MS)
    is_busy = False
    expect(page.get_by_text("4 hits")).to_be_visible(timeout=LIVE_LIMIT_MS)
    web_server.ask("POST", f"/api/v1/training/{job_id}/cancel")


def test_a_log_goes_on_after_a_gap_when_the_server_answers_again(
    open_page: PageOpener, web_server: Server, guard: PageGuard, tmp_path: Path
) -> None:
    guard.allow("answer 503: GET .*/logs/lines")
    code = GATED.format(gate=str(tmp_path / "gate"), before="start\n", after="dropped\nthe end\n")
    job_id = web_server.submit(code=code, name="gap")
    is_busy = False

    def connect(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        def forward(text: str | bytes) -> None:
            message = json.loads(text)
            logs = [each for each in message.get("messages", ()) if each["kind"] == "log"]
            for each in logs if (tmp_path / "gate").exists() and is_busy else ():
                each["start"] += 1000  # as if the bytes before had been dropped
            socket.send(json.dumps(message))

        server.on_message(forward)

    page = open_page("/queue")
    page.route_web_socket(re.compile("/api/v1/live$"), connect)
    answer_busy(page, "/logs/lines", lambda: is_busy)
    page.goto(f"{page.url.removesuffix('/queue')}/jobs/{job_id}?tab=log")
    log = page.get_by_role("region", name="Log, newest lines last")
    expect(log.get_by_text("start", exact=True)).to_be_visible(timeout=LIVE_LIMIT_MS)
    expect(page.get_by_text("following, newest at the bottom")).to_be_visible()
    is_busy = True
    (tmp_path / "gate").touch()
    expect(page.get_by_text("new output is not shown")).to_be_visible(timeout=LIVE_LIMIT_MS)
    is_busy = False
    expect(log.get_by_text("the end", exact=True)).to_be_visible(timeout=LIVE_LIMIT_MS)
    expect(page.get_by_text("following, newest at the bottom")).to_be_visible()
    web_server.ask("POST", f"/api/v1/training/{job_id}/cancel")


def test_a_long_line_that_arrives_live_has_a_link_to_its_rest(
    open_page: PageOpener, web_server: Server, tmp_path: Path
) -> None:
    code = GATED.format(gate=str(tmp_path / "gate"), before="start\n", after=f"{'z' * 20_000}\nend\n")
    job_id = web_server.submit(code=code, name="long-line")
    _, log = open_log(open_page, job_id)
    expect(log.get_by_text("start", exact=True)).to_be_visible(timeout=LIVE_LIMIT_MS)
    (tmp_path / "gate").touch()
    expect(log.get_by_text("end", exact=True)).to_be_visible(timeout=LIVE_LIMIT_MS)
    expect(line(log, 2).get_by_role("link")).to_have_attribute("href", re.compile("offset="))
    assert web_server.job(job_id)["status"] == "running"
    web_server.ask("POST", f"/api/v1/training/{job_id}/cancel")
