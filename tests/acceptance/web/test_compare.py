"""Compare runs in the browser."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.acceptance.server.real_server import Server
from tests.acceptance.web.browser import PageGuard, check_accessibility, take_screenshot
from tests.acceptance.web.chart_data import add_job_with_three_attempts, job_number, opened
from tests.acceptance.web.conftest import SETTINGS, PageOpener

RATES = ("0.1", "0.2", "0.4", "0.8", "1.6")


async def add_jobs(state: Path) -> None:
    async with opened(state) as database:
        for number, rate in enumerate(RATES, 1):
            args = ["--lr", rate, "--epochs", "30"]
            await add_job_with_three_attempts(database, number, name=f"lr-{rate}", args=args)


@pytest.fixture(scope="module")
def web_server(tmp_path_factory: pytest.TempPathFactory, built_app: None) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("compare")
    asyncio.run(add_jobs(folder / "state"))
    server = Server(folder, **SETTINGS)
    yield server
    server.stop()


def compare_path(count: int, more: str = "") -> str:
    return "/compare?jobs=" + ",".join(job_number(number) for number in range(1, count + 1)) + more


def wait_for_charts(page: Page) -> None:
    expect(page.locator(".plot-host[data-points]").first).to_be_visible()


def test_two_runs_are_chosen_and_compared(open_page: PageOpener) -> None:
    page = open_page("/compare")
    expect(page.get_by_text("No runs chosen")).to_be_visible()
    check_accessibility(page)
    page.get_by_role("button", name="Choose runs").click()
    page.get_by_label("Search jobs").fill("lr")
    page.get_by_label("lr-0.1", exact=True).check()
    page.get_by_label("lr-0.2", exact=True).check()
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile(f"jobs={job_number(1)}%2C{job_number(2)}"))
    wait_for_charts(page)
    label = page.locator('figure[data-metric="train/loss"] .plot-host')
    expect(label).to_have_attribute("aria-label", "train/loss against step, 2 runs: lr-0.1, lr-0.2")
    differences = page.get_by_role("region", name="Differences of the runs")
    expect(differences.get_by_role("row", name="lr 0.1 0.2")).to_be_visible()
    expect(differences.get_by_role("row", name="epochs")).to_have_count(0)
    page.get_by_role("button", name=re.compile("equal rows")).click()
    expect(differences.get_by_role("row", name="epochs 30 30")).to_be_visible()
    expect(page).to_have_url(re.compile("equal=true"))
    take_screenshot(page, "compare", full=True)


def test_a_run_is_hidden_and_removed(open_page: PageOpener) -> None:
    page = open_page(compare_path(3))
    wait_for_charts(page)
    page.get_by_role("button", name="Show lr-0.2 in the charts").click()
    expect(page).to_have_url(re.compile(f"hide={job_number(2)}"))
    label = page.locator('figure[data-metric="train/loss"] .plot-host')
    expect(label).to_have_attribute("aria-label", re.compile("2 runs: lr-0.1, lr-0.4"))
    page.get_by_role("button", name="Remove lr-0.4").click()
    expect(page.get_by_role("list", name="Runs").get_by_role("listitem")).to_have_count(2)


def test_the_scatter_plot_shows_a_metric_against_a_setting_cost_or_time(open_page: PageOpener) -> None:
    page = open_page(compare_path(5))
    scatter = page.get_by_role("region", name="Scatter")
    scatter.get_by_label("Vertical axis").select_option("val/top1")
    scatter.get_by_label("Horizontal axis").select_option("setting:lr")
    expect(page).to_have_url(re.compile("x=setting%3Alr"))
    picture = scatter.get_by_role("img")
    expect(picture).to_have_attribute(
        "aria-label", re.compile("val/top1 against lr, 5 runs: lr-0.1 .* at 0.1;")
    )
    expect(scatter.locator(".dot")).to_have_count(5)
    for value, text in (("cost", r"\$"), ("time", "2\u00a0h")):
        scatter.get_by_label("Horizontal axis").select_option(value)
        expect(picture).to_have_attribute("aria-label", re.compile(text))


def test_a_run_that_does_not_exist_is_named_and_can_be_removed(
    open_page: PageOpener, guard: PageGuard
) -> None:
    guard.allow("answer 404")
    page = open_page(compare_path(2, ",01980000-0000-7000-8000-0000000000ff"))
    wait_for_charts(page)
    expect(page.get_by_text("could not be loaded")).to_be_visible()
    page.get_by_role("button", name="Remove it").click()
    expect(page.get_by_text("could not be loaded")).to_have_count(0)


@pytest.mark.parametrize(("dark", "screen"), [(False, "desktop"), (True, "desktop"), (False, "phone")])
def test_the_comparison_fits_every_screen(open_page: PageOpener, dark: bool, screen: str) -> None:
    page = open_page(compare_path(5, "&axis=time"), dark=dark, screen=screen)
    wait_for_charts(page)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    check_accessibility(page)
    take_screenshot(page, f"compare-{screen}-{'dark' if dark else 'light'}")
