"""Measure the web app in a real Chromium: from a reported metric to changed pixels, first paint, and page memory."""

import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.build_web import ensure_built
from scripts.chromium import find_chromium

from bench.server import BenchServer, Figure, median_ms, quantile_ms

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

TABS, POINTS, EVERY_S = 5, 60, 0.5
LOADS = 10
BUSY_S = 300.0
MEDIAN_MS, P95_MS = 250, 500
PAINT_MS = 500
MEMORY_MB = 150
WITHIN_MS = 60_000
CHART = 'figure[data-metric="loss"] canvas'
# Reports two points, so that there is a chart, and waits until it is watched. Then it reports one point after the
# other, and writes down when.
REPORTING = """
import os, time, anygpu
anygpu.log(loss=1, step=1)
anygpu.log(loss=2, step=2)
while not os.path.exists({path!r}):
    time.sleep(0.05)
with open({path!r}, "a") as file:
    for step in range(3, {points} + 3):
        at = time.time()
        anygpu.log(loss=step % 2 + step / 1000, step=step)
        print(at, file=file, flush=True)
        time.sleep({every_s})
"""
BUSY = """
import time, anygpu
end = time.time() + {seconds}
step = 0
while time.time() < end:
    step += 1
    anygpu.log(step=step, **{{f"train/metric_{{n}}": (step * n) % 97 for n in range(20)}})
    for n in range(10):
        print(f"step {{step}} line {{n}}: the quick brown fox jumps over the lazy dog")
    time.sleep(0.1)
time.sleep(600)
"""
# Looks at the chart's pixels in every frame, and notes when they differ from those of the frame before.
WATCH_PIXELS = """
(selector) => {
  window.changes = [];
  let before = 0;
  const look = () => {
    const canvas = document.querySelector(selector);
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    let sum = 0;
    for (const word of new Uint32Array(data.buffer)) sum = (Math.imul(sum, 31) + word) | 0;
    if (sum !== before) window.changes.push(Date.now());
    before = sum;
    requestAnimationFrame(look);
  };
  look();
}
"""
# The time from the start of the navigation to the frame in which the first job is shown.
WATCH_ROWS = """
window.rowsAt = new Promise((done) => {
  const look = () => {
    if (document.querySelector("tbody tr a, [role=row] a")) requestAnimationFrame(() => done(performance.now()));
    else requestAnimationFrame(look);
  };
  look();
});
"""


def measure(server: BenchServer, *, quick: bool = False) -> list[Figure]:
    ensure_built()
    points, loads, busy_s = (4, 2, 6.0) if quick else (POINTS, LOADS, BUSY_S)
    with _open_browser() as browser:
        session = _log_in(browser, server)
        return [
            _measure_pixels(browser, session, server, points),
            _measure_first_paint(browser, session, server, loads),
            _measure_memory(browser, session, server, busy_s),
        ]


@contextlib.contextmanager
def _open_browser() -> Iterator["Browser"]:
    from playwright.sync_api import sync_playwright  # slow to import, and only used here

    chromium = find_chromium()
    if chromium is None:
        raise RuntimeError("no Chromium runs on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium.program, args=chromium.arguments, env=chromium.environment
        )
        yield browser
        browser.close()


def _log_in(browser: "Browser", server: BenchServer) -> Any:
    """Return the cookies of a browser session."""
    context = browser.new_context()
    context.request.get(server.call("POST", "/api/v1/login/links")["url"], max_redirects=0)
    state = context.storage_state()
    context.close()
    return state


def _open_context(browser: "Browser", session: Any, server: BenchServer) -> "BrowserContext":
    context = browser.new_context(
        base_url=server.url, storage_state=session, viewport={"width": 1440, "height": 900}, locale="en-US"
    )
    context.set_default_timeout(WITHIN_MS)
    return context


@contextlib.contextmanager
def _running_job(server: BenchServer, name: str, code: str) -> Iterator[str]:
    job = server.call("POST", "/api/v1/training", {"code": code, "name": name})["id"]
    try:
        yield job
    finally:
        server.call("POST", f"/api/v1/training/{job}/cancel")


def _measure_pixels(browser: "Browser", session: Any, server: BenchServer, points: int) -> Figure:
    with tempfile.TemporaryDirectory() as folder:
        reported = Path(folder) / "reported"
        code = REPORTING.format(path=str(reported), points=points, every_s=EVERY_S)
        with _running_job(server, "pixels", code) as job:
            pages = [_open_context(browser, session, server).new_page() for _ in range(TABS)]
            for page in pages:
                page.goto(f"/jobs/{job}")
                page.locator(CHART).wait_for()
                page.evaluate(WATCH_PIXELS, CHART)
            reported.touch()
            times = _wait_for_times(reported, points, pages[0])
            pages[0].wait_for_timeout(1000)
            changes = [page.evaluate("window.changes") for page in pages]
        for page in pages:
            page.context.close()
    delays = [delay for tab in changes for delay in _delays(times, tab)]
    median, p95 = median_ms(delays), quantile_ms(delays, 0.95)
    return Figure(
        what=f"metric reported to pixel changed, {TABS} tabs",
        ours=f"median {median:.0f} ms, p95 {p95:.0f} ms",
        against=f"{len(delays)} points drawn",
        clients=f"{TABS} tabs",
        target=f"median under {MEDIAN_MS} ms, p95 under {P95_MS} ms",
        met=median < MEDIAN_MS and p95 < P95_MS,
        how=f"from the call of anygpu.log in the script to another image of the chart; a point every {EVERY_S} s",
    )


def _wait_for_times(path: Path, count: int, page: "Page") -> list[float]:
    end = time.monotonic() + WITHIN_MS / 1000 + count * EVERY_S
    while len(lines := path.read_text().split()) < count:
        if time.monotonic() > end:
            raise RuntimeError(f"the script reported {len(lines)} of {count} points")
        page.wait_for_timeout(100)
    return [float(line) for line in lines]


def _delays(reported: list[float], changed_ms: list[float]) -> Iterator[float]:
    """Return the seconds from each report to the next change of the picture."""
    for at in reported:
        later = [change / 1000 - at for change in changed_ms if change / 1000 >= at]
        yield min(later, default=WITHIN_MS / 1000)


def _measure_first_paint(browser: "Browser", session: Any, server: BenchServer, loads: int) -> Figure:
    """Open the jobs page with an empty browser cache, several times."""
    times = []
    for _ in range(loads):
        context = _open_context(browser, session, server)
        context.add_init_script(WATCH_ROWS)
        page = context.new_page()
        page.goto("/jobs")
        times.append(float(page.evaluate("window.rowsAt")) / 1000)
        context.close()
    total = server.call("GET", "/api/v1/training/counts")["all"]
    return Figure(
        what="first paint of the jobs page with its rows",
        ours=f"median {median_ms(times):.0f} ms",
        against=f"{total:,} jobs",
        target=f"under {PAINT_MS} ms",
        met=median_ms(times) < PAINT_MS,
        how=f"{loads} loads with an empty cache, from the start of the navigation",
    )


def _measure_memory(browser: "Browser", session: Any, server: BenchServer, seconds: float) -> Figure:
    with _running_job(server, "busy", BUSY.format(seconds=seconds)) as job:
        context = _open_context(browser, session, server)
        page = context.new_page()
        page.goto(f"/jobs/{job}")
        page.locator("figure[data-metric] canvas").first.wait_for()
        page.wait_for_timeout(seconds * 200)
        early = _heap_mb(page)
        page.wait_for_timeout(seconds * 800)
        late = _heap_mb(page)
        context.close()
    return Figure(
        what=f"page memory after {seconds:.0f} s of a busy job",
        ours=f"{late:.0f} MB",
        against=f"{early:.0f} MB after {seconds / 5:.0f} s",
        target=f"under {MEMORY_MB} MB",
        met=late < MEMORY_MB,
        how="JavaScript heap after garbage collection; 200 points and 100 log lines per second",
    )


def _heap_mb(page: "Page") -> float:
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    session.detach()
    return float(metrics["JSHeapUsedSize"]) / 1e6
