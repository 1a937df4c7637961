"""The Costs view: the same sums as the API, groupings, months, providers, predictions, and downloads."""

import csv
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.acceptance.server.real_server import Server
from tests.acceptance.web.browser import PageGuard, check_accessibility, settle, take_screenshot
from tests.acceptance.web.conftest import SETTINGS, PageOpener
from tests.acceptance.web.sample_costs import HOSTILE, fill_with_costs


@pytest.fixture(scope="module")
def web_server(tmp_path_factory: pytest.TempPathFactory, built_app: None) -> Iterator[Server]:
    """A server with the costs of two months, stored before it started; nothing acts on its jobs."""
    folder = tmp_path_factory.mktemp("web")
    fill_with_costs(folder / "state")
    server = Server(folder, **SETTINGS, ANYGPU_SERVER__CONTROL="false")
    yield server
    server.stop()


def month_before() -> str:
    now = datetime.now(UTC)
    return f"{now.year - 1}-12" if now.month == 1 else f"{now.year}-{now.month - 1:02d}"


def dollars(microusd: int) -> str:
    return f"${microusd / 1_000_000:,.2f}"


def open_costs(open_page: PageOpener, query: str = "", **options: object) -> Page:
    page = open_page(f"/costs{query}", **options)  # type: ignore[arg-type]
    settle(page)
    return page


@pytest.mark.parametrize(("screen", "dark"), [("desktop", False), ("desktop", True), ("phone", False)])
def test_the_page_is_complete_and_accessible(open_page: PageOpener, screen: str, dark: bool) -> None:
    page = open_costs(open_page, screen=screen, dark=dark)
    for name in ("Month so far", "Whole month", "Saved by spot", "Work lost", "Predictions"):
        expect(page.locator(".cost-stats").get_by_text(name, exact=True)).to_be_visible()
    expect(page.get_by_role("img", name="Cost by day in")).to_be_visible()
    expect(page.get_by_role("region", name="Cost by provider").get_by_text("Cheapest")).to_have_count(1)
    check_accessibility(page)
    name = f"costs-filled-{screen}-{'dark' if dark else 'light'}"
    take_screenshot(page, name)
    take_screenshot(page, f"{name}-full", full=True)
    wide = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wide) <= 0


def test_the_sums_are_those_of_the_api_and_of_the_csv(
    open_page: PageOpener, web_server: Server, tmp_path: Path
) -> None:
    month = month_before()
    page = open_costs(open_page, f"?month={month}")
    summary = web_server.ask("GET", f"/api/v1/costs/summary?month={month}").json
    expect(page.locator(".cost-stats")).to_contain_text(dollars(summary["total"]["microusd"]))
    expect(page.locator(".cost-stats")).to_contain_text(dollars(summary["total"]["saved_microusd"]))
    table = page.get_by_role("region", name="Cost by Backend")
    for backend in ("aws", "runpod", "lambda"):
        expect(table.get_by_role("row", name=backend)).to_contain_text("$")
    expect(table.get_by_role("row", name="lab")).to_contain_text("own")
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").first.click()
    file = tmp_path / "costs.csv"
    download.value.save_as(file)
    rows = {row["backend"]: row for row in csv.DictReader(file.read_text().splitlines())}
    assert round(float(rows["total"]["cost_usd"]) * 1_000_000) == summary["total"]["microusd"]


def test_groupings_months_and_choices_are_in_the_address(open_page: PageOpener) -> None:
    page = open_costs(open_page)
    page.get_by_role("button", name="Person", exact=True).click()
    expect(page.get_by_role("region", name="Cost by Person").get_by_role("row", name="ada")).to_be_visible()
    page.get_by_role("button", name="Month before").click()
    page.get_by_role("button", name="Time", exact=True).click()
    page.get_by_role("button", name="Table", exact=True).click()
    expect(page.get_by_role("region", name="Cost by day in").get_by_role("row")).not_to_have_count(0)
    for part in ("by=person", f"month={month_before()}", "what=time", "table=true"):
        assert part in page.url
    address = page.url
    again = open_page(address)
    expect(again.get_by_role("region", name="Cost by Person")).to_be_visible()
    expect(again.get_by_role("button", name="Chart", exact=True)).to_be_visible()
    expect(again.get_by_role("button", name="Time", exact=True)).to_have_attribute("aria-pressed", "true")


def test_a_day_shows_its_parts_under_the_pointer(open_page: PageOpener) -> None:
    page = open_costs(open_page, f"?month={month_before()}")
    chart = page.get_by_role("img", name="Cost by day in")
    box = chart.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.95, box["y"] + 100)
    tip = page.locator(".day-plot .tip")
    expect(tip).to_contain_text("aws")
    expect(tip).to_contain_text("all")


def test_tags_of_users_stay_text(open_page: PageOpener) -> None:
    page = open_costs(open_page, "?by=tag")
    page.get_by_role("button", name="Month before").click()
    page.get_by_role("button", name="Month before").click()
    expect(page.get_by_role("region", name="Cost by Tag").get_by_text(HOSTILE)).to_be_visible()
    assert page.evaluate("window.hostile === undefined")


def test_another_job_is_compared_at_all_providers(open_page: PageOpener, web_server: Server) -> None:
    job = web_server.ask("GET", "/api/v1/training?limit=5").json["jobs"][4]
    page = open_costs(open_page)
    page.get_by_role("button", name="Job: ").click()
    page.get_by_role("dialog", name="Choose a job").get_by_role("button", name=job["name"]).click()
    expect(page.get_by_role("button", name=f"Job: {job['name']}")).to_be_visible()
    assert f"job={job['id']}" in page.url
    rows = page.get_by_role("region", name="Cost by provider").get_by_role("row")
    expect(rows.nth(3)).to_be_visible()


@pytest.mark.parametrize("screen", ["desktop", "laptop", "phone"])
def test_the_recommended_provider_is_in_sight_at_every_width(open_page: PageOpener, screen: str) -> None:
    page = open_costs(open_page, "", screen=screen)
    table = page.get_by_role("region", name="Cost by provider")
    cheapest = table.get_by_text("Cheapest", exact=True)
    expect(cheapest).to_be_visible()
    assert table.evaluate("each => each.scrollWidth - each.clientWidth") <= 0
    table.scroll_into_view_if_needed()
    take_screenshot(page, f"costs-providers-{screen}")
    page.get_by_role("link", name="Compare another workload").click()
    expect(page).to_have_url(re.compile("/new"))


def test_predictions_link_to_their_jobs(open_page: PageOpener) -> None:
    page = open_costs(open_page)
    table = page.get_by_role("region", name="Predicted and actual cost by job")
    expect(table.get_by_role("link").first).to_be_visible()
    expect(table).to_contain_text("%")


def test_a_failed_part_does_not_blank_the_page(open_page: PageOpener, guard: PageGuard) -> None:
    guard.allow("answer 500|answer 503")
    page = open_page("/jobs")
    page.route("**/api/v1/costs/compare*", lambda route: route.fulfill(status=503, body="{}"))
    page.goto("/costs")
    expect(page.get_by_text("The providers could not be compared")).to_be_visible()
    expect(page.locator(".cost-stats")).to_be_visible()


def test_a_month_without_costs_says_so(open_page: PageOpener) -> None:
    page = open_costs(open_page, "?month=2021-02")
    expect(page.get_by_text("No machine was used in February 2021")).to_be_visible()
