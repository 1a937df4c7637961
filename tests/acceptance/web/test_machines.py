"""The Machines view: add a cloud from its form, run a job there, and see what is rented."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
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
    form.get_by_label("Launch every (seconds)").fill("0.1")
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
    assert web_server.ask("DELETE", "/api/v1/backends/rented").status == 200


def send(request: urllib.request.Request) -> None:
    """Send a request, again after the pause that the cloud wants between two launches."""
    end = time.monotonic() + 120
    while True:
        try:
            urllib.request.urlopen(request, timeout=20).close()
            return
        except urllib.error.HTTPError as error:
            if error.code != HTTPStatus.TOO_MANY_REQUESTS or time.monotonic() > end:
                raise
            time.sleep(float(error.headers["Retry-After"]))


def rent_without_a_job(server: Server, cloud: Cloud) -> str:
    """Rent a machine as this server would for a job, but without one. Return the machine's name."""
    spec = {"command": ["true"], "resources": {"gpu": 1}, "placement": {"allowed": ["spare"], "paid": True}}
    shown = server.ask("POST", "/api/v1/plan/native", {"spec": spec}).json["requests"]
    headers = {"authorization": f"Bearer {cloud.about['credentials']['lambda'][0]}"}
    for each in shown:
        method, url = each["title"].split()
        send(urllib.request.Request(url, each["text"].encode(), headers, method=method))
    return str(json.loads(shown[-1]["text"])["name"]).rpartition("-")[0]  # without the tag of this server


@pytest.mark.extended
def test_a_machine_without_a_job_is_shown_with_its_unknown_price_and_is_ended_by_its_button(
    open_page: PageOpener, web_server: Server, cloud: Cloud
) -> None:
    backend = {
        "name": "spare",
        "kind": "lambda",
        "options": {"endpoint": cloud.about["endpoints"]["lambda"], "unattended": True},
        "credentials": {"api_key": cloud.about["credentials"]["lambda"][0]},
    }
    assert web_server.ask("POST", "/api/v1/backends", backend).status == 201
    name = rent_without_a_job(web_server, cloud)
    page = open_page("/machines")
    panel = page.get_by_role("region", name="Rented now")
    row = panel.get_by_role("row", name=name)
    expect(row).to_contain_text("No job")
    expect(row).to_contain_text("unknown")
    expect(panel).to_contain_text("at least $0.00 per hour")
    check_accessibility(page)
    take_screenshot(page, "machines-orphan")
    row.get_by_role("button", name="End machine").click()
    page.get_by_role("button", name="End the machine").click()
    expect(panel.get_by_text("Nothing is rented")).to_be_visible(timeout=60_000)
    assert cloud.running() == []
    assert web_server.ask("DELETE", "/api/v1/backends/spare").status == 200


def test_a_wrong_key_is_shown_at_the_backend(open_page: PageOpener, cloud: Cloud) -> None:
    page = open_page("/machines?add=lambda")
    form = page.get_by_role("dialog", name="Add a backend")
    form.get_by_label("Name").fill("wrong-key")
    form.get_by_label("Endpoint").fill(cloud.about["endpoints"]["lambda"])
    form.get_by_label("Api key").fill("not a key")
    form.get_by_role("button", name="Add and check").click()
    row = page.get_by_role("region", name="Table of backends").get_by_role("row", name="wrong-key")
    expect(row).to_contain_text("Not working")
    expect(row).to_contain_text("Account check failed")
    page.reload()  # the server remembers it, with its time
    expect(row).to_contain_text("Not working")
    expect(row).to_contain_text("ago")
    take_screenshot(page, "machines-wrong-key")
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


def test_the_form_of_a_cluster_takes_keys_and_commands_and_shows_errors_at_their_fields(
    open_page: PageOpener, web_server: Server, guard: PageGuard
) -> None:
    guard.allow("422")
    page = open_page("/machines?add=slurm")
    form = page.get_by_role("dialog", name="Add a backend")
    expect(form.get_by_label("Name", exact=True)).to_be_focused()
    form.get_by_label("Name", exact=True).fill("cluster")
    form.get_by_label("Host", exact=True).fill("me@127.0.0.1:1")
    form.get_by_label("Private key").fill("not\na key\n")
    form.get_by_label("Setup").fill("module load cuda, nccl\nulimit -n 4096")
    form.get_by_text("More options").click()
    form.get_by_label("Relay").select_option("")
    form.get_by_label("Options of sbatch").fill("--nonsense=1")
    form.get_by_text("More options").click()
    form.get_by_role("button", name="Add and check").click()
    wrong = form.get_by_label("Options of sbatch")
    expect(wrong).to_be_focused()  # it was folded away
    expect(wrong).to_have_attribute("aria-invalid", "true")
    expect(form.get_by_text("--nonsense cannot be set here")).to_be_visible()
    check_accessibility(page)
    wrong.fill("--nice=5")
    form.get_by_role("button", name="Add and check").click()
    expect(form).to_have_count(0)
    backends = web_server.ask("GET", "/api/v1/backends").json["backends"]
    (added,) = (each for each in backends if each["name"] == "cluster")
    assert added["options"] == {
        "host": "me@127.0.0.1:1",
        "relay": "",
        "sbatch_options": ["--nice=5"],
        "setup": ["module load cuda, nccl", "ulimit -n 4096"],
    }
    assert added["credential_names"] == ["private_key"]
    row = page.get_by_role("region", name="Table of backends").get_by_role("row", name="cluster")
    expect(row).to_contain_text("Not working")
    assert web_server.ask("DELETE", "/api/v1/backends/cluster").status == 200


@pytest.mark.parametrize("kind", ["kubernetes", "celery", "ray"])
@pytest.mark.extended
def test_the_form_of_each_engine_is_accessible_on_a_phone(open_page: PageOpener, kind: str) -> None:
    page = open_page(f"/machines?add={kind}", screen="phone")
    expect(page.get_by_label("Name", exact=True)).to_be_visible()
    page.get_by_text("More options").click()
    check_accessibility(page)
    take_screenshot(page, f"machines-add-{kind}")


def test_a_viewer_sees_machines_and_no_buttons_that_change_them(open_page: PageOpener) -> None:
    page = open_page("/machines", role="viewer")
    expect(page.get_by_role("heading", name="local")).to_be_visible()
    for name in ("Add a backend", "Add a host", "Check all", "Check"):
        expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)
