"""The charts of a job: live curves, zoom, attempts, many metrics, and the use of the machine."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import FloatRect, Locator, Page, Route, expect
from tests.acceptance.server.real_server import Server
from tests.acceptance.web.browser import (
    PageGuard,
    check_accessibility,
    longest_allowed_ms,
    record_tasks,
    settle,
    take_screenshot,
)
from tests.acceptance.web.chart_data import (
    LARGE_METRICS,
    ODD_TIMES,
    add_job_with_odd_times,
    add_job_with_three_attempts,
    add_large_job,
    job_number,
    opened,
)
from tests.acceptance.web.conftest import SETTINGS, PageOpener

CURVES, LARGE, ODD = 1, 2, 3
LOSS = 'figure[data-metric="train/loss"] .plot-host'
POINTS = f"Number(document.querySelector('{LOSS}')?.dataset.points ?? 0)"
LEARNING = """
import time, anygpu
for step in range(10_000):
    anygpu.log({"train/loss": 1 / (1 + step / 50)}, step=step)
    anygpu.progress(step=step, steps=10_000, epoch=step // 1000, epochs=10)
    time.sleep(0.02)
"""


async def add_jobs(state: Path) -> None:
    async with opened(state) as database:
        await add_job_with_three_attempts(database, CURVES, name="resnet50", args=["--lr", "0.1"])
        await add_large_job(database, LARGE)
        await add_job_with_odd_times(database, ODD)


@pytest.fixture(scope="module")
def web_server(tmp_path_factory: pytest.TempPathFactory, built_app: None) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("charts")
    asyncio.run(add_jobs(folder / "state"))
    server = Server(folder, **SETTINGS)
    yield server
    server.cancel_everything()
    server.stop()


def job_path(number: int, search: str = "") -> str:
    return f"/jobs/{job_number(number)}{search}"


def chart(page: Page, name: str) -> Locator:
    return page.locator(f'figure[data-metric="{name}"]')


def plot(page: Page, name: str) -> Locator:
    return chart(page, name).locator(".plot-host[data-points]").first


def count_points(page: Page, name: str) -> int:
    return int(plot(page, name).get_attribute("data-points") or 0)


def drag(page: Page, name: str, start: float, end: float) -> None:
    """Drag in the drawing area of a chart between two fractions of its width."""
    area = chart(page, name).locator(".u-over")
    area.hover()  # waits until nothing moves the chart
    box = area.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * start, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * end, box["y"] + 40, steps=4)
    page.mouse.up()


def wait_for_points(page: Page, condition: str, value: int) -> None:
    """Wait until the number of drawn points of train/loss fulfils a condition such as "> value"."""
    page.wait_for_function(f"value => {POINTS} {condition}", arg=value, timeout=60_000)


def check_every_point_is_drawn_once(server: Server, page: Page, job_id: str) -> None:
    server.ask("POST", f"/api/v1/training/{job_id}/cancel")
    server.wait_ended(job_id)
    (loss,) = server.ask("GET", f"/api/v1/training/{job_id}/metrics/summary").json["metrics"]
    wait_for_points(page, "=== value", loss["count"])


def test_a_curve_grows_while_the_job_trains(web_server: Server, open_page: PageOpener) -> None:
    job_id = web_server.submit(code=LEARNING, name="learning")
    page = open_page(f"/jobs/{job_id}")
    expect(plot(page, "train/loss")).to_be_visible()
    wait_for_points(page, "> value + 20", count_points(page, "train/loss"))
    assert "newest value" in (plot(page, "train/loss").get_attribute("aria-label") or "")
    check_every_point_is_drawn_once(web_server, page, job_id)


def test_a_curve_continues_after_a_restart_of_the_server(
    web_server: Server, open_page: PageOpener, guard: PageGuard
) -> None:
    guard.allow("WebSocket|ERR_CONNECTION|answer 50")
    job_id = web_server.submit(code=LEARNING, name="watched")
    page = open_page(f"/jobs/{job_id}")
    wait_for_points(page, "> value", 50)
    port = str(urlsplit(web_server.url).port)
    web_server.stop()
    web_server.start("--port", port)
    wait_for_points(page, "> value + 100", count_points(page, "train/loss"))
    check_every_point_is_drawn_once(web_server, page, job_id)


def test_attempts_are_drawn_with_the_work_that_was_done_again(open_page: PageOpener) -> None:
    page = open_page(job_path(CURVES))
    expect(plot(page, "train/loss")).to_have_attribute("aria-label", re.compile("3 attempts, 2,700 points"))
    attempts = page.get_by_role("group", name="Attempts")
    expect(attempts.get_by_role("button")).to_have_count(3)
    attempts.get_by_role("button", name="2").click()
    expect(page).to_have_url(re.compile("hide=2"))
    expect(plot(page, "train/loss")).to_have_attribute("aria-label", re.compile("2 attempts"))
    check_accessibility(page)
    take_screenshot(page, "job-metrics")


def test_the_zoom_is_in_the_url_and_has_every_point(open_page: PageOpener) -> None:
    page = open_page(job_path(CURVES))
    expect(plot(page, "train/loss")).to_be_visible()
    drag(page, "train/loss", 0.1, 0.3)
    expect(page).to_have_url(re.compile(r"zoom=[\d.]+%7E[\d.]+"))
    expect(page.get_by_role("button", name="Reset zoom")).to_be_visible()
    wait_for_zoomed_points(page)
    page.reload()
    wait_for_zoomed_points(page)
    chart(page, "train/loss").locator(".u-over").dblclick()
    expect(page).not_to_have_url(re.compile("zoom"))


def zoom_of(url: str) -> tuple[float, float]:
    found = re.search(r"zoom=([\d.]+)%7E([\d.]+)", url)
    assert found is not None, url
    return float(found[1]), float(found[2])


def test_keys_zoom_around_the_crosshair(open_page: PageOpener) -> None:
    page = open_page(job_path(CURVES))
    expect(plot(page, "train/loss")).to_have_attribute("data-points", re.compile("[1-9]"))
    plot(page, "train/loss").focus()
    page.keyboard.press("+")  # around the middle
    expect(page).to_have_url(re.compile(r"zoom="))
    once = page.url
    low, high = zoom_of(once)
    page.keyboard.press("+")
    page.wait_for_url(lambda url: url != once)
    assert zoom_of(page.url)[1] - zoom_of(page.url)[0] == pytest.approx((high - low) / 2, rel=0.01)
    page.keyboard.press("-")
    page.wait_for_url(lambda url: zoom_of(url) == pytest.approx((low, high), rel=0.01))
    page.keyboard.press("0")
    expect(page).not_to_have_url(re.compile("zoom"))
    page.keyboard.press("ArrowLeft")  # the last point
    page.keyboard.press("+")
    expect(page).to_have_url(re.compile(r"zoom="))
    assert zoom_of(page.url)[0] > low


def test_a_chart_without_points_cannot_be_zoomed(open_page: PageOpener) -> None:
    page = open_page("/jobs")
    held: list[Route] = []
    page.route("**/metrics/history*", lambda route: held.append(route))
    page.goto(job_path(CURVES))
    plot(page, "train/loss").focus()
    page.keyboard.press("+")
    drag(page, "train/loss", 0.1, 0.3)
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert "zoom" not in page.url
    assert held
    for route in held:
        route.continue_()
    page.unroute("**/metrics/history*")
    wait_for_points(page, "> value", 0)
    page.keyboard.press("+")
    expect(page).to_have_url(re.compile("zoom="))
    assert zoom_of(page.url)[1] > 1


def test_two_fingers_zoom_and_pan_and_one_scrolls_the_page(open_page: PageOpener) -> None:
    page = open_page(job_path(CURVES), screen="phone")
    area = chart(page, "train/loss").locator(".u-over")
    chart(page, "train/loss").scroll_into_view_if_needed()
    expect(area).to_be_visible()
    settle(page)
    area.scroll_into_view_if_needed()  # what is above has its height now
    fingers = Fingers(page, area)
    fingers.move([(0.4, 0.6)], [(0.3, 0.7), (0.2, 0.8)])
    expect(page).to_have_url(re.compile("zoom="))
    once = page.url
    low, high = zoom_of(once)
    fingers.move([(0.5, 0.9)], [(0.4, 0.8), (0.3, 0.7)])  # to the left: later steps
    page.wait_for_url(lambda url: url != once)
    later = zoom_of(page.url)
    assert later[0] > low
    assert later[1] - later[0] == pytest.approx(high - low, rel=0.05)
    fingers.move([(0.05, 0.95)], [(0.3, 0.7), (0.45, 0.55)])
    expect(page).not_to_have_url(re.compile("zoom"))
    before = page.evaluate("window.scrollY")
    fingers.scroll(150)
    page.wait_for_function("before => window.scrollY < before", arg=before)


class Fingers:
    """Fingers on an area of the page. A place is the x positions of one or two, as fractions of the width."""

    def __init__(self, page: Page, area: Locator) -> None:
        self._area = area
        self._devtools = page.context.new_cdp_session(page)
        self._devtools.send("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 2})

    def move(self, start: list[tuple[float, ...]], places: list[tuple[float, ...]]) -> None:
        box = self._box()
        y = box["y"] + box["height"] / 2
        self._drag([[(box["x"] + box["width"] * part, y) for part in place] for place in [*start, *places]])

    def scroll(self, pixels: int) -> None:
        """Move one finger down."""
        box = self._box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        self._drag([[(x, y + moved)] for moved in range(0, pixels, 10)])

    def _box(self) -> FloatRect:
        box = self._area.bounding_box()
        assert box is not None
        return box

    def _drag(self, path: list[list[tuple[float, float]]]) -> None:
        for number, places in enumerate(path):
            points = [{"x": x, "y": y, "id": finger} for finger, (x, y) in enumerate(places)]
            self._send("touchMove" if number else "touchStart", points)
        self._send("touchEnd", [])

    def _send(self, kind: str, points: list[dict[str, float]]) -> None:
        self._devtools.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


def wait_for_zoomed_points(page: Page) -> None:
    """Wait until train/loss has the 500 points of the zoomed part and the few beside it, and no others."""
    page.wait_for_function(f"() => {POINTS} > 500 && {POINTS} < 600")


def test_the_crosshair_is_shared_and_moves_with_the_arrow_keys(open_page: PageOpener) -> None:
    page = open_page(job_path(CURVES))
    expect(plot(page, "val/loss")).to_be_visible()
    chart(page, "train/loss").locator(".u-over").hover(position={"x": 60, "y": 60})
    expect(page.locator(".tip")).to_have_count(1)
    expect(page.locator(".tip")).to_contain_text("attempt 1, aws")
    expect(page.locator(".cross:visible")).to_have_count(6)
    before = page.locator(".tip dd").first.inner_text()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".tip dd").first).not_to_have_text(before)
    take_screenshot(page, "job-metrics-crosshair")


def test_options_of_the_charts_are_in_the_url(open_page: PageOpener) -> None:
    page = open_page(job_path(CURVES))
    page.get_by_role("button", name="Time", exact=True).click()
    expect(page).to_have_url(re.compile("axis=time"))
    expect(plot(page, "train/loss")).to_have_attribute("aria-label", re.compile("against time"))
    page.get_by_role("button", name="Log scale").click()
    expect(page).to_have_url(re.compile("scale=log"))
    page.get_by_role("group", name="Group").get_by_role("button", name="weights 31").click()
    expect(page.locator("figure")).to_have_count(31)
    expect(page.get_by_role("button", name="Log scale")).to_have_attribute("aria-disabled", "true")
    page.get_by_label("Search metrics").fill("val")
    expect(page).to_have_url(re.compile("metrics=val"))
    expect(page.locator("figure")).to_have_count(2)
    page.get_by_label("Search metrics").fill("nothing")
    expect(page.get_by_text('No metric matches "nothing"')).to_be_visible()
    page.get_by_role("button", name="Clear the search").click()
    expect(page.locator("figure")).to_have_count(31)


def test_a_link_has_the_pinned_metrics(open_page: PageOpener) -> None:
    page = open_page(job_path(CURVES))
    expect(plot(page, "train/loss")).to_be_visible()
    chart(page, "train/loss").get_by_role("button", name="Unpin train/loss").click()
    expect(page).to_have_url(re.compile("pins="))
    expect(chart(page, "train/loss")).to_have_count(0)
    address = urlsplit(page.url)
    page.evaluate("localStorage.removeItem('anygpu.pinned-metrics')")
    other = open_page(f"{address.path}?{address.query}")
    expect(other.locator("figure[data-metric]").first).to_be_visible()
    expect(chart(other, "train/loss")).to_have_count(0)


def test_pins_of_one_job_stay_when_another_job_with_other_metrics_gets_pins(open_page: PageOpener) -> None:
    page = open_page(job_path(ODD))
    chart(page, "epoch").get_by_role("button", name="Unpin epoch").click()
    expect(chart(page, "epoch")).to_have_count(0)
    page.goto(job_path(CURVES))
    chart(page, "val/loss").get_by_role("button", name="Unpin val/loss").click()
    expect(chart(page, "val/loss")).to_have_count(0)
    page.goto(job_path(ODD))
    expect(chart(page, "loss")).to_be_visible()
    expect(chart(page, "epoch")).to_have_count(0)


def test_an_enlarged_chart_shows_its_points_as_a_table(open_page: PageOpener) -> None:
    page = open_page(job_path(CURVES))
    page.get_by_role("button", name="Enlarge val/loss").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator(".plot-host[data-points]")).to_be_visible()
    dialog.get_by_role("button", name="Show the points as a table").click()
    expect(dialog.get_by_role("columnheader", name="Attempt")).to_be_visible()
    expect(dialog.locator("tbody tr")).to_have_count(54)
    check_accessibility(page)
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("chart="))


def test_points_of_invalid_times_are_shown_without_a_time(open_page: PageOpener) -> None:
    page = open_page(job_path(ODD))
    expect(plot(page, "loss")).to_have_attribute("data-points", "10")
    chart(page, "loss").locator(".u-over").hover(position={"x": 2, "y": 60})
    tip = page.locator(".tip")
    for step in range(10):
        expect(tip.locator("dd").first).to_have_text(str(step))
        expect(tip.get_by_text("unknown")).to_have_count(int(step in ODD_TIMES))
        page.keyboard.press("ArrowRight")
    for axis, drawn in (("Time", 10 - len(ODD_TIMES)), ("Epoch", 0)):
        page.get_by_role("button", name=axis, exact=True).click()
        expect(plot(page, "loss")).to_have_attribute("data-points", str(drawn))
    page.get_by_role("button", name="Step", exact=True).click()
    page.get_by_role("button", name="Enlarge loss").click()
    page.get_by_role("dialog").get_by_role("button", name="Show the points as a table").click()
    expect(page.get_by_role("dialog").get_by_role("cell", name="unknown")).to_have_count(len(ODD_TIMES))


def test_the_machine_panel_shows_stored_telemetry(open_page: PageOpener) -> None:
    page = open_page(job_path(CURVES))
    machine = page.get_by_role("region", name="Machine")
    expect(machine.get_by_text("A10", exact=True).first).to_be_visible()
    expect(machine.get_by_text("19.8\u00a0GiB")).to_be_visible()
    machine.get_by_role("button", name="Last hour").click()
    page.get_by_role("menuitem", name="Whole run").click()
    expect(page).to_have_url(re.compile("machine=run"))
    expect(machine.get_by_role("button", name="Whole run")).to_be_visible()


def test_200_metrics_of_100_000_points_block_the_page_never_longer_than_100_ms(open_page: PageOpener) -> None:
    page = open_page(job_path(LARGE, "?metrics=metric"))
    expect(page.locator("figure")).to_have_count(LARGE_METRICS)
    expect(page.locator(".plot-host[data-points]").first).to_be_visible()
    with record_tasks(page) as tasks:
        scroll_and_point(page)
    assert len(tasks) > 100
    assert max(tasks) < longest_allowed_ms(page)
    assert page.locator(".plot-host").count() < 40  # charts far from the screen are not drawn


def scroll_and_point(page: Page) -> None:
    for _ in range(8):
        page.mouse.wheel(0, 700)
        page.wait_for_function(
            "() => [...document.querySelectorAll('.plot-host')].every(p => p.dataset.points)"
        )
    for place in range(20):
        page.mouse.move(500 + place * 20, 450)
    page.mouse.wheel(0, -6000)


def test_charts_take_the_colours_of_the_chosen_theme(open_page: PageOpener) -> None:
    page = open_page(job_path(CURVES))
    expect(plot(page, "train/loss")).to_be_visible()
    picture = f"document.querySelector('{LOSS} canvas').toDataURL()"
    light = page.evaluate(picture)
    page.get_by_role("button", name="Dark").click()
    page.wait_for_function(f"light => {picture} !== light", arg=light)


@pytest.mark.parametrize(("dark", "screen"), [(True, "desktop"), (False, "phone")])
def test_charts_fit_dark_and_small_screens(open_page: PageOpener, dark: bool, screen: str) -> None:
    page = open_page(job_path(CURVES), dark=dark, screen=screen)
    chart(page, "train/loss").scroll_into_view_if_needed()
    expect(plot(page, "train/loss")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    check_accessibility(page)
    take_screenshot(page, f"job-metrics-{'dark' if dark else screen}")
