"""A real server and a real Chromium for the tests of a file, and pages that are logged in.

Write these tests without `async`: Playwright's event loop runs as long as the browser of the file is open.
"""

from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from scripts.build_web import ensure_built
from scripts.chromium import find_chromium
from tests.acceptance.server.real_server import Server
from tests.acceptance.web.browser import (
    LIMIT_MS,
    LONG_TASKS,
    PENDING_REQUESTS,
    SCREENS,
    PageGuard,
    take_screenshot,
)
from tests.conftest import NOT_INSTALLED

SETTINGS = {
    "ANYGPU_LOCAL__CPUS": "4",
    "ANYGPU_AGENT__CANCEL_GRACE_S": "1",
    "ANYGPU_LIMITS__REQUESTS_PER_S": "0",
    "ANYGPU_CONTROL__SWEEP_EVERY_S": "3600",  # machines without a job stay, so that pages can show them
}

expect.set_options(timeout=LIMIT_MS)


@pytest.fixture(scope="session")
def built_app() -> None:
    ensure_built()


@pytest.fixture(scope="module")
def web_server(tmp_path_factory: pytest.TempPathFactory, built_app: None) -> Iterator[Server]:
    """A server process of the file's own, without jobs."""
    server = Server(tmp_path_factory.mktemp("web"), **SETTINGS)
    yield server
    server.cancel_everything()
    server.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for the tests of the file. Without one they are skipped, and counted at the end."""
    chromium = find_chromium()
    if chromium is None:
        pytest.skip(f"Chromium {NOT_INSTALLED}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium.program, args=chromium.arguments, env=chromium.environment
        )
        yield browser
        browser.close()


class Logins:
    """The cookies of one browser session for each role, so that a page opens without a new login."""

    def __init__(self, server: Server, browser: Browser) -> None:
        self._server, self._browser = server, browser
        self._states: dict[str, Any] = {}

    def state(self, role: str) -> Any:
        if role not in self._states:
            self._states[role] = self._log_in(role)
        return self._states[role]

    def link(self, role: str = "operator") -> str:
        """Return a login link that works once."""
        token = "" if role == "operator" else self._server.new_token(role=role, name=f"{role} of a test")
        return str(self._server.ask("POST", "/api/v1/login/links", token=token).json["url"])

    def _log_in(self, role: str) -> Any:
        context = self._browser.new_context()
        answer = context.request.get(self.link(role), max_redirects=0)
        assert answer.status == 303
        state = context.storage_state()
        context.close()
        return state


@pytest.fixture(scope="module")
def logins(web_server: Server, browser: Browser) -> Logins:
    return Logins(web_server, browser)


@pytest.fixture
def guard(web_server: Server) -> Iterator[PageGuard]:
    """Fails the test if a page logs an error, violates the policy, gets an error answer or asks another origin."""
    guard = PageGuard(web_server.url)
    yield guard
    guard.check()


class PageOpener(Protocol):
    def __call__(
        self,
        path: str = "/jobs",
        *,
        role: str | None = "operator",
        dark: bool = False,
        screen: str = "desktop",
    ) -> Page: ...


@pytest.fixture
def open_page(
    request: pytest.FixtureRequest, web_server: Server, browser: Browser, logins: Logins, guard: PageGuard
) -> Iterator[PageOpener]:
    """Open pages with a role (None: not logged in), a colour scheme and the size of a screen."""
    contexts: list[BrowserContext] = []

    def open_one(
        path: str = "/jobs", *, role: str | None = "operator", dark: bool = False, screen: str = "desktop"
    ) -> Page:
        width, height = SCREENS[screen]
        context = browser.new_context(
            base_url=web_server.url,
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            storage_state=None if role is None else logins.state(role),
            reduced_motion="reduce",
            permissions=["clipboard-read", "clipboard-write"],
            locale="en-US",  # without one, Chromium names a locale that Intl does not know
        )
        contexts.append(context)
        context.set_default_timeout(LIMIT_MS)
        context.add_init_script(LONG_TASKS + PENDING_REQUESTS)
        page = context.new_page()
        guard.watch(page)
        page.goto(path)
        return page

    yield open_one
    if request.node.stash.get(FAILED, False):
        _keep_pictures(request.node.name, contexts)
    for context in contexts:
        context.close()


@pytest.fixture
def page(open_page: PageOpener) -> Page:
    """The jobs page of an operator, on a desktop screen in light colours."""
    return open_page()


@pytest.fixture
def page_as(open_page: PageOpener) -> Callable[[str], Page]:
    """Open the jobs page with a role."""
    return lambda role: open_page(role=role)


@pytest.fixture
def screenshot(page: Page) -> Callable[[str], Path]:
    """Store what `page` shows in build/screenshots."""
    return lambda name: take_screenshot(page, name)


FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


def _keep_pictures(test: str, contexts: list[BrowserContext]) -> None:
    """Store what the pages of a failed test show."""
    name = "".join(char if char.isalnum() else "-" for char in test)
    pages = [page for context in contexts for page in context.pages]
    for number, page in enumerate(pages, 1):
        take_screenshot(page, f"failed-{name}-{number}")
