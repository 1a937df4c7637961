"""Every view with jobs in every state: accessible in both colour schemes, on small screens, and safe."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect
from tests.acceptance.server.real_server import Server
from tests.acceptance.web.browser import accessibility_problems, settle, take_screenshot
from tests.acceptance.web.conftest import PageOpener
from tests.acceptance.web.job_states import TABS, SampleJobs, create_sample_jobs, views

OVERFLOW = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
IS_HOSTILE = "() => [window.hostile === undefined, document.querySelectorAll('[data-hostile]').length]"


@pytest.fixture(scope="module")
def jobs(web_server: Server) -> SampleJobs:
    return create_sample_jobs(web_server)


def hostile_views(jobs: SampleJobs) -> Iterator[str]:
    yield from ("/jobs", "/queue", "/costs", "/machines", "/accuracy", "/settings")
    yield from (f"/jobs/{jobs.hostile}?tab={tab}" for tab in TABS)
    yield f"/compare?jobs={jobs.hostile},{jobs.finished}"
    yield f"/new?from={jobs.hostile}"


@pytest.mark.parametrize(("dark", "screen"), [(False, "desktop"), (True, "desktop"), (True, "phone")])
def test_every_view_is_accessible(open_page: PageOpener, jobs: SampleJobs, dark: bool, screen: str) -> None:
    page = open_page("/jobs", dark=dark, screen=screen)
    problems: list[str] = []
    for name, path in views(jobs):
        page.goto(path)
        settle(page)
        take_screenshot(page, f"view-{name}-{screen}-{'dark' if dark else 'light'}")
        problems += accessibility_problems(page)
        if screen == "phone" and (wide := page.evaluate(OVERFLOW)) > 0:
            problems.append(f"{path} is {wide} px wider than the screen")
    assert not problems, "\n".join(problems)


def test_hostile_text_never_becomes_markup(open_page: PageOpener, jobs: SampleJobs) -> None:
    page = open_page("/jobs")
    for path in hostile_views(jobs):
        page.goto(path)
        settle(page)
        assert page.evaluate(IS_HOSTILE) == [True, 0], path
    page.goto(f"/jobs/{jobs.hostile}?tab=artifacts")
    expect(page.get_by_text("<img src=x data-hostile").first).to_be_visible()
