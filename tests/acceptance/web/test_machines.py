"""The Machines view: add a cloud from its form, run a job there, and see what is rented."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.acceptance.machines.cloud import Cloud
from tests.acceptance.server.real_server import Server
from tests.acceptance.web.browser import PageGuard, check_accessibility, take_screenshot
from tests.acceptance.web.conftest import PageOpener


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    cloud = Cloud(tmp_path_factory.mktemp("cloud"), "--boot", "0.2s")
    yield cloud
    cloud.stop()


def fill_form(page: Page, cloud: Cloud) -> None:
    form = page.get_by_role("dialog", name="Add a backend")
    form.get_by_label("Kind").select_option("lambda")
    form.get_by_label("Name").fill("rented")
    form.get_by_label("Endpoint").fill(cloud.about["endpoints"]["lambda"])
    form.get_by_label("Api key").fill(cloud.about["credentials"]["lambda"][0])
    form.get_by_label("Unattended").check()
    form.get_by_text("More options").click()
    form.get_by_label("Ssh port").fill(str(cloud.about["ssh_port"]))
    form.get_by_label("Launch every s").fill("0.1")
    form.get_by_role("button", name="Add and check").click()


def test_a_cloud_is_added_from_its_form_and_runs_a_job(
    open_page: PageOpener, web_server: Server, cloud: Cloud, tmp_path: Path
) -> None:
    page = open_page("/machines")
    page.get_by_role("button", name="Add a backend").click()
    fill_form(page, cloud)
    row = page.get_by_role("region", name="Table of backends").get_by_role("row", name="rented")
    expect(row).to_contain_text("Healthy")
    expect(row).to_contain_text("$")  # the check has found the cheapest GPU
    gate = tmp_path / "gate"
    job = web_server.submit(
        command=f"while [ ! -e {gate} ]; do sleep 0.1; done",
        name="far-away",
        placement={"allowed": ["rented"], "paid": True},
        resources={"gpu": 1},
    )
    rented = page.get_by_role("region", name="Rented machines")
    expect(rented.get_by_role("link", name="far-away")).to_be_visible(timeout=60_000)
    expect(rented).to_contain_text("Training", timeout=60_000)
    check_accessibility(page)
    take_screenshot(page, "machines-light")
    dark = open_page("/machines", dark=True)
    expect(dark.get_by_role("link", name="far-away")).to_be_visible(timeout=60_000)
    check_accessibility(dark)
    take_screenshot(dark, "machines-dark")
    phone = open_page("/machines", screen="phone")
    expect(phone.get_by_role("link", name="far-away")).to_be_visible(timeout=60_000)
    take_screenshot(phone, "machines-phone")
    gate.touch()
    assert web_server.wait_ended(job, timeout_s=60)["status"] == "completed"
    expect(page.get_by_text("Nothing is rented")).to_be_visible(timeout=60_000)
    assert cloud.running() == []


def test_a_wrong_key_is_shown_at_the_backend(open_page: PageOpener, cloud: Cloud) -> None:
    page = open_page("/machines?add=lambda")
    form = page.get_by_role("dialog", name="Add a backend")
    form.get_by_label("Name").fill("wrong-key")
    form.get_by_label("Endpoint").fill(cloud.about["endpoints"]["lambda"])
    form.get_by_label("Api key").fill("not a key")
    form.get_by_role("button", name="Add and check").click()
    row = page.get_by_role("region", name="Table of backends").get_by_role("row", name="wrong-key")
    expect(row).to_contain_text("Not working")
    row.get_by_role("button", name="More about wrong-key").click()
    page.get_by_role("menuitem", name="Remove this backend").click()
    page.get_by_role("button", name="Remove the backend").click()
    expect(row).to_have_count(0)


def test_a_name_that_is_taken_is_refused_in_the_form(open_page: PageOpener, guard: PageGuard) -> None:
    page = open_page("/machines?add=ssh")
    guard.allow("409|422")
    form = page.get_by_role("dialog", name="Add a host")
    form.get_by_label("Name").fill("local")
    form.get_by_label("Host", exact=True).fill("someone@127.0.0.1")
    form.get_by_role("button", name="Add and check").click()
    expect(form.get_by_role("alert")).to_be_visible()


def test_a_viewer_sees_machines_and_no_buttons_that_change_them(open_page: PageOpener) -> None:
    page = open_page("/machines", role="viewer")
    expect(page.get_by_role("heading", name="local")).to_be_visible()
    for name in ("Add a backend", "Add a host", "Check all", "Check"):
        expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)
