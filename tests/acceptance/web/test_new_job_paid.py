"""New job with clouds that cost money: nothing is rented unasked, and a chosen offer is where the job runs."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect
from tests.acceptance.machines.cloud import BRISK, Cloud, free_port
from tests.acceptance.server.real_server import Server
from tests.acceptance.web.browser import check_accessibility, take_screenshot
from tests.acceptance.web.conftest import SETTINGS, PageOpener
from tests.acceptance.web.test_new_job import HELLO, submit, type_code, wait_completed

from anygpu.spec import from_yaml


@pytest.fixture(scope="module")
def web_server(tmp_path_factory: pytest.TempPathFactory, built_app: None) -> Iterator[Server]:
    """A server with its own machine and an account at a simulated EC2."""
    folder = tmp_path_factory.mktemp("paid")
    cloud = Cloud(folder, "--boot", "1s", "--ssh-port", str(free_port()))
    config = folder / "config.toml"
    config.write_text(cloud.settings(ec2={"regions": ["us-east-1"]}))
    try:
        server = Server(folder, **{**SETTINGS, **BRISK}, ANYGPU_CONFIG=str(config))
        yield server
        server.cancel_everything()
        server.stop()
    finally:
        cloud.stop()


@pytest.fixture
def new_page(open_page: PageOpener) -> Page:
    page = open_page("/new")
    type_code(page, HELLO)
    expect(page.locator(".offers .off").filter(has_text="ec2").first).to_be_visible()
    return page


def test_without_consent_the_job_stays_on_the_own_machine(new_page: Page, web_server: Server) -> None:
    expect(new_page.locator(".offers .off.sel")).to_contain_text("local")
    expect(new_page.locator(".sumline")).to_contain_text("No cost")
    job_id = submit(new_page)
    wait_completed(web_server, job_id)
    assert web_server.job(job_id)["backend"] == "local"


def test_a_chosen_offer_is_shown_with_its_price_and_is_where_the_job_runs(
    new_page: Page, web_server: Server
) -> None:
    row = new_page.locator(".offers .off").filter(has_text="ec2").filter(has_not_text="spot").first
    row.get_by_role("radio").check()
    expect(new_page.locator(".sumline")).to_contain_text("/h")
    expect(new_page.get_by_text("The job runs only here")).to_be_visible()
    check_accessibility(new_page)
    take_screenshot(new_page, "new-chosen-offer")
    new_page.get_by_role("button", name="YAML").click()
    placement = from_yaml(new_page.get_by_label("The job as yaml").inner_text()).placement
    assert (placement.allowed, placement.paid, placement.interruptible) == (("ec2",), True, "no")
    assert placement.instance_type
    new_page.keyboard.press("Escape")
    job_id = submit(new_page)
    wait_completed(web_server, job_id)
    job = web_server.job(job_id)
    assert job["place"]["backend"] == "ec2"
    assert job["place"]["name"] == placement.instance_type


def test_control_enter_does_what_the_button_may(new_page: Page) -> None:
    sent: list[str] = []
    new_page.on("request", lambda request: sent.append(urlsplit(request.url).path))
    new_page.get_by_text("More options").click()
    new_page.get_by_label("CPUs", exact=True).fill("64")
    button = new_page.get_by_role("button", name="Submit")
    expect(button).to_be_disabled()
    new_page.keyboard.press("Control+Enter")
    new_page.get_by_label("CPUs", exact=True).fill("1")
    expect(button).to_be_enabled()
    new_page.get_by_role("heading", name="New job").click()
    new_page.keyboard.press("?")
    expect(new_page.get_by_role("dialog")).to_be_visible()
    new_page.keyboard.press("Control+Enter")
    new_page.keyboard.press("Escape")
    new_page.get_by_label("CPUs", exact=True).fill("65")
    expect(button).to_be_disabled()  # after a later request, so that those of the keys would have been seen
    assert "/api/v1/snapshots/limits" not in sent  # the first request of a submission


def test_a_point_of_the_scatter_chooses_its_offer(new_page: Page) -> None:
    plot = new_page.locator(".scatter .plot")
    points = plot.locator("[title^='ec2']")
    expect(points.first).to_be_visible()
    points.first.click(force=True)  # the plot takes the click
    expect(new_page.get_by_text("The job runs only here")).to_be_visible()
    expect(new_page.locator(".offers .off.sel")).to_contain_text("ec2")


def test_the_provider_filter_shows_offers_of_one_cloud(new_page: Page) -> None:
    new_page.get_by_role("button", name="All providers").click()
    new_page.get_by_label("ec2", exact=True).check()
    new_page.keyboard.press("Escape")
    rows = new_page.locator(".offers .off")
    expect(rows.filter(has_text="local")).to_have_count(0)
    expect(rows.filter(has_text="ec2").first).to_be_visible()
    assert "provider" in new_page.url
    new_page.get_by_role("button", name="Show all").click()
    expect(rows.filter(has_text="local")).to_have_count(1)
