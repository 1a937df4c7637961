"""Settings, Queue and Accuracy: what they show, what they change, and for whom."""

import re
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect
from tests.acceptance.server.real_server import Server
from tests.acceptance.web.browser import check_accessibility, take_screenshot
from tests.acceptance.web.conftest import PageOpener

PACED = """
import time, anygpu
for step in range(1, 101):
    time.sleep(0.02)
    anygpu.progress(step=step, steps=100)
"""
SLEEP = "import time; time.sleep(600)"


def wait_for_outcomes(server: Server, count: int) -> None:
    """Wait until the results of completed jobs are recorded, which happens a moment after their end."""
    end = time.monotonic() + 60
    while server.ask("GET", "/api/v1/accuracy").json["jobs"] < count:
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.fixture
def screenshots(open_page: PageOpener) -> Callable[[str, str], None]:
    """Store a view in light and dark colours and on a phone, and check each for accessibility."""

    def take(path: str, name: str) -> None:
        for look, options in {
            "light": {},
            "dark": {"dark": True},
            "phone": {"screen": "phone"},
        }.items():
            shown = open_page(path, **options)  # type: ignore[arg-type]
            shown.wait_for_load_state("networkidle")
            expect(shown.locator(".panel").first).to_be_visible()
            assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth")
            check_accessibility(shown)
            take_screenshot(shown, f"{name}-{look}")

    return take


def test_a_token_is_created_shown_once_and_revoked(
    open_page: PageOpener, web_server: Server, screenshots: Callable[[str, str], None]
) -> None:
    page = open_page("/settings")
    page.get_by_role("button", name="Create a token").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("<b>robot</b>")
    dialog.get_by_role("button", name="viewer").click()
    dialog.get_by_role("button", name="30 days").click()
    dialog.get_by_role("button", name="Create the token").click()
    token = dialog.get_by_test_id("new-token").inner_text()
    assert token.startswith("anygpu_")
    who = web_server.ask("GET", "/api/v1/whoami", token=token).json
    assert who["role"] == "viewer"
    dialog.get_by_role("button", name="Done").click()
    expect(page.get_by_text(token)).to_have_count(0)
    row = page.get_by_role("row").filter(has_text="<b>robot</b>")
    expect(row).to_contain_text("viewer")
    expect(row).to_contain_text("in 29 d")
    row.get_by_role("button", name="Revoke").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Revoke the token").click()
    expect(row).to_have_count(0)
    assert web_server.ask("GET", "/api/v1/whoami", token=token).status == 401
    screenshots("/settings", "settings")


FOCUSED_ROW = """
() => ({
  row: document.activeElement.closest("tr")?.getBoundingClientRect().top ?? -1,
  bar: document.querySelector("header.top").getBoundingClientRect().bottom,
})
"""


def test_the_top_bar_does_not_cover_the_row_that_the_keys_chose(page: Page, web_server: Server) -> None:
    tokens = [web_server.new_token(role="viewer", name=f"row-{number}") for number in range(10)]
    page.set_viewport_size({"width": 1440, "height": 300})
    page.goto("/settings")
    expect(page.get_by_role("row", name=re.compile("row-"))).to_have_count(len(tokens))
    for key in "jjjjjjjjjkkkkkkk":
        page.keyboard.press(key)
    shown = page.evaluate(FOCUSED_ROW)
    assert shown["row"] >= shown["bar"], shown


def test_a_secret_is_stored_replaced_and_deleted_but_never_shown(
    open_page: PageOpener, web_server: Server
) -> None:
    page = open_page("/settings", role="member")
    expect(page.get_by_role("heading", name="Secrets", exact=True)).to_be_visible()
    expect(page.get_by_role("heading", name="Tokens", exact=True)).to_have_count(0)
    page.get_by_role("button", name="Add a secret").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("not valid")
    expect(dialog.get_by_text("Use letters, digits")).to_be_visible()
    dialog.get_by_label("Name").fill("HF_TOKEN")
    dialog.get_by_label("Value").fill("hf_very_secret")
    dialog.get_by_role("button", name="Store the secret").click()
    expect(page.get_by_role("cell", name="HF_TOKEN", exact=True)).to_be_visible()
    page.get_by_role("button", name="Replace HF_TOKEN").click()
    dialog.get_by_label("Value").fill("hf_very_secret_2")
    dialog.get_by_role("button", name="Store the secret").click()
    expect(dialog).to_have_count(0)
    assert "hf_very_secret" not in page.content()
    page.get_by_role("button", name="Delete HF_TOKEN").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Delete the secret").click()
    expect(page.get_by_role("cell", name="HF_TOKEN", exact=True)).to_have_count(0)
    assert web_server.ask("GET", "/api/v1/secrets").json["secrets"] == []


def test_a_viewer_sees_no_action(open_page: PageOpener) -> None:
    page = open_page("/settings", role="viewer")
    expect(page.get_by_role("heading", name="Secrets", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Add a secret")).to_have_count(0)
    expect(page.get_by_role("heading", name="Tokens", exact=True)).to_have_count(0)


def test_an_admin_is_offered_no_action_for_tokens_of_operators(
    open_page: PageOpener, web_server: Server
) -> None:
    for role in ("admin", "operator"):
        web_server.new_token(role=role, name=f"key-of-{role}")
    page = open_page("/settings", role="admin")
    expect(page.get_by_role("button", name="Revoke key-of-admin")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="key-of-operator")).to_be_visible()
    expect(page.get_by_role("button", name="Revoke key-of-operator")).to_have_count(0)


def test_the_theme_is_chosen(page: Page) -> None:
    page.goto("/settings")
    page.get_by_role("region", name="This browser and server").get_by_role("button", name="Dark").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_the_queue_says_why_a_job_waits_and_starts_it_first(
    open_page: PageOpener, web_server: Server, screenshots: Callable[[str, str], None]
) -> None:
    busy = web_server.submit(code=SLEEP, name="busy", resources={"cpus": 4})
    web_server.wait(busy, lambda job: job["status"] == "running")
    page = open_page("/queue")
    expect(page.get_by_text("No job is waiting")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("busy"))).to_be_visible()
    first = web_server.submit(code="pass", name="first-waiting", resources={"cpus": 4})
    second = web_server.submit(code="pass", name="second-waiting", resources={"cpus": 4})
    row = page.get_by_role("row", name=re.compile("second-waiting"))
    expect(row).to_contain_text("0 of 4 CPU slots")
    expect(row.get_by_role("cell").first).to_have_text("2")
    screenshots("/queue", "queue")
    row.get_by_role("button", name="Start now").click()
    expect(row.get_by_role("cell").first).to_have_text("1")
    viewer = open_page("/queue", role="viewer")
    expect(viewer.get_by_role("row", name=re.compile("second-waiting"))).to_be_visible()
    expect(viewer.get_by_role("button", name="Start now")).to_have_count(0)
    web_server.ask("POST", f"/api/v1/training/{busy}/cancel")
    for job in (first, second):
        web_server.wait_ended(job)
    expect(page.get_by_text("No job is waiting")).to_be_visible()
    expect(page.get_by_text("No job is running")).to_be_visible()


@pytest.mark.extended
def test_predictions_stand_beside_results(
    open_page: PageOpener, web_server: Server, screenshots: Callable[[str, str], None]
) -> None:
    page = open_page("/accuracy")
    expect(page.get_by_role("heading", name="No predictions to compare yet")).to_be_visible()
    for number in range(3):
        spec = {"name": f"paced-{number}", "placement": {"expected_duration": f"{number + 1}s"}}
        web_server.wait_ended(web_server.submit(code=PACED, **spec))
    wait_for_outcomes(web_server, 3)
    page.reload()
    table = page.get_by_role("table").first
    expect(table.get_by_role("row", name=re.compile("paced-"))).not_to_have_count(0)
    page.get_by_role("button", name="Cost").click()
    expect(page.get_by_text("No job with a predicted cost")).to_be_visible()
    expect(page).to_have_url(re.compile("what=cost"))
    screenshots("/accuracy", "accuracy")
