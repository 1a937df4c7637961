"""What every browser test watches in its pages: errors, foreign requests, accessibility and long tasks."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import ConsoleMessage, Page, Request, Response, WebSocket
from scripts.chromium import axe_source

ROOT = Path(__file__).resolve().parents[3]
SCREENSHOTS = ROOT / "build" / "screenshots"
SCREENS = {"desktop": (1440, 900), "laptop": (1024, 768), "phone": (390, 844)}
FIXED_WORK_MS = 20.0  # CPU time of FIXED_WORK on the processor for which the limit of a task was chosen
FIXED_WORK = (
    "() => { let sum = 0; for (let i = 0; i < 5e6; i += 1) sum = (sum * 31 + i) % 1000003; return sum; }"
)
LIMIT_MS = 20_000  # for one condition; a busy machine takes its time
LONG_TASKS = """
window.longTasks = [];
new PerformanceObserver((list) => {
  for (const each of list.getEntries()) window.longTasks.push({ start: each.startTime, ms: each.duration });
}).observe({ type: "longtask", buffered: true });
"""
# Counts the requests of the page that have no answer yet.
PENDING_REQUESTS = """
window.pendingRequests = 0;
const send = window.fetch;
window.fetch = (...words) => {
  window.pendingRequests += 1;
  return send(...words).finally(() => (window.pendingRequests -= 1));
};
"""
SETTLED = """
async (limit) => {
  const idle = () =>
    window.pendingRequests === 0 &&
    document.querySelector("main")?.innerText &&
    !document.querySelector("[aria-busy=true]");
  const end = performance.now() + limit;
  for (let quiet = 0; quiet < 5; quiet = idle() ? quiet + 1 : 0) {
    if (performance.now() > end) return false;
    await new Promise((done) => setTimeout(done, 30));
  }
  return true;
}
"""
AXE_RUN = """
async () => {
  const found = await axe.run(document, { resultTypes: ["violations"] });
  return found.violations.map((each) => ({
    id: each.id,
    impact: each.impact,
    help: each.help,
    nodes: each.nodes.map((node) => node.html),
  }));
}
"""


class PageGuard:
    """Collects what no page of the app may do; `check` fails the test if something was collected."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self.found: list[str] = []
        self._allowed: list[re.Pattern[str]] = []

    def allow(self, pattern: str) -> None:
        """Accept problems whose text contains a match of the pattern, in a test that causes them."""
        self._allowed.append(re.compile(pattern))

    def watch(self, page: Page) -> None:
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.found.append(f"uncaught error: {error}"))
        page.on("request", lambda request: self._check_origin(request.url))
        page.on("requestfailed", self._on_failure)
        page.on("response", self._on_response)
        page.on("websocket", self._on_websocket)

    @property
    def problems(self) -> list[str]:
        return [each for each in self.found if not any(allowed.search(each) for allowed in self._allowed)]

    def check(self) -> None:
        assert not self.problems, "\n".join(self.problems)

    def _on_console(self, message: ConsoleMessage) -> None:
        # A failed request is reported by its response, with the path. Policy violations are console errors.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            self.found.append(f"console: {message.text}")

    def _on_failure(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # the page left, or no longer needs the answer
            self.found.append(f"failed request: {request.method} {request.url}: {request.failure}")

    def _on_response(self, response: Response) -> None:
        if response.status >= 400:
            self.found.append(f"answer {response.status}: {response.request.method} {response.url}")

    def _on_websocket(self, socket: WebSocket) -> None:
        self._check_origin(socket.url.replace("ws", "http", 1))

    def _check_origin(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob") and f"{parts.scheme}://{parts.netloc}" != self._origin:
            self.found.append(f"request to another origin: {url}")


def check_accessibility(page: Page) -> None:
    """Fail if axe-core finds a serious or critical violation in what the page shows now."""
    problems = accessibility_problems(page)
    assert not problems, "\n".join(problems)


def accessibility_problems(page: Page) -> list[str]:
    """Return the serious and critical violations that axe-core finds in what the page shows now."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe_source())
    violations: list[dict[str, Any]] = page.evaluate(AXE_RUN)
    return [
        f"{page.url} {each['id']}: {each['help']}\n  " + "\n  ".join(each["nodes"][:5])
        for each in violations
        if each["impact"] in ("serious", "critical")
    ]


def reset_long_tasks(page: Page) -> None:
    """Forget the long tasks until now, for example those while the page was loaded."""
    page.evaluate("window.longTasks.length = 0")


def long_tasks(page: Page, over_ms: float = 100) -> list[float]:
    """Return the durations, in milliseconds, of the tasks that blocked the page longer than `over_ms`."""
    # A task is reported after it ended; a round through the event loop lets the observer see it.
    page.evaluate("() => new Promise((done) => setTimeout(done, 60))")
    return [each["ms"] for each in page.evaluate("window.longTasks") if each["ms"] > over_ms]


def settle(page: Page) -> None:
    """Wait until the view shows its content: nothing is being loaded, for some frames."""
    assert page.evaluate(SETTLED, LIMIT_MS), f"{page.url} is still loading"


@contextmanager
def record_tasks(page: Page) -> Iterator[list[float]]:
    """Record the tasks of the page's main thread. The list has their CPU time in milliseconds after the block.

    Unlike the durations of `long_tasks`, CPU time does not depend on what else runs on the machine.
    """
    tasks: list[float] = []
    browser = page.context.browser
    assert browser is not None
    browser.start_tracing(page=page, categories=["toplevel"])
    try:
        yield tasks
    finally:
        events = json.loads(browser.stop_tracing())["traceEvents"]
        names = [each for each in events if each.get("name") == "thread_name"]
        main = {(each["pid"], each["tid"]) for each in names if each["args"]["name"] == "CrRendererMain"}
        tasks += [
            each["tdur"] / 1000
            for each in events
            if each.get("name") == "ThreadControllerImpl::RunTask"
            and (each["pid"], each["tid"]) in main
            and "tdur" in each
        ]


def longest_allowed_ms(page: Page) -> float:
    """Return how much CPU time one task may take: 100 ms, and more on a processor that is slower than usual."""
    runs = 5
    with record_tasks(page) as tasks:
        for _ in range(runs):
            page.evaluate(FIXED_WORK)
    shortest_run = sorted(tasks)[-runs]
    return 100 * max(1.0, shortest_run / FIXED_WORK_MS)


def take_screenshot(page: Page, name: str, *, full: bool = False) -> Path:
    """Store what the page shows as build/screenshots/<name>.png, for people to look at."""
    path = SCREENSHOTS / f"{name}.png"
    page.screenshot(path=path, full_page=full, animations="disabled", caret="hide")
    return path
