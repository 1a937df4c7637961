"""New job: the plan follows what is typed, and the page submits what it shows."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tests.acceptance.server.real_server import Server
from tests.acceptance.web.browser import PageGuard, check_accessibility, take_screenshot
from tests.acceptance.web.conftest import PageOpener

from anygpu.spec import from_yaml

SCRIPT = """\
import torch
from torch.utils.data import DataLoader
from torchvision.datasets import CIFAR10
from torchvision.models import resnet50

EPOCHS = 30
loader = DataLoader(CIFAR10("data"), batch_size=128)
model = resnet50().cuda()
for epoch in range(EPOCHS):
    for images, labels in loader:
        loss = model(images.cuda()).mean()
        loss.backward()
    torch.save(model.state_dict(), f"epoch-{epoch}.pt")
"""
HELLO = """\
import sys
import anygpu
print("hello", sys.argv[1:])
for step in range(1, 6):
    anygpu.log(loss=1 / step, step=step)
"""
DROP = """
(files) => {
  const transfer = new DataTransfer();
  for (const [name, text] of Object.entries(files)) transfer.items.add(new File([text], name));
  const event = new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true });
  document.querySelector(".pane.ed").dispatchEvent(event);
}
"""
DOCUMENT_LOADED = re.compile(r"/jobs/[0-9a-f-]{36}")


def type_code(page: Page, text: str) -> None:
    """Replace the text of the open file. The text is inserted at once, as by pasting it."""
    editor = page.locator(".cm-content")
    editor.click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(text)


def fact(page: Page, name: str) -> Any:
    return page.locator(".found > div").filter(has=page.get_by_text(name, exact=True))


def kept_values(page: Page) -> Any:
    return page.get_by_role("list", name="Kept from the cloned job")


def submit(page: Page) -> str:
    """Press the button and return the id of the job whose page opens."""
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url(DOCUMENT_LOADED)
    return page.url.rpartition("/")[2].partition("?")[0]


def wait_completed(server: Server, job_id: str) -> str:
    """Wait for the job and return its output."""
    job = server.wait_ended(job_id, timeout_s=120)
    log = server.ask("GET", f"/api/v1/training/{job_id}/logs").data.decode()
    assert job["status"] == "completed", (job, log)
    return log


@pytest.fixture
def new_page(open_page: PageOpener) -> Page:
    return open_page("/new")


def test_the_plan_changes_while_the_user_types(new_page: Page) -> None:
    expect(new_page.get_by_text("No plan yet")).to_be_visible()
    type_code(new_page, SCRIPT)
    expect(fact(new_page, "Model")).to_contain_text("resnet50")
    expect(fact(new_page, "Epochs")).to_contain_text("30")
    first = new_page.locator(".offers .ti").first.inner_text()
    type_code(new_page, SCRIPT.replace("EPOCHS = 30", "EPOCHS = 300"))
    expect(fact(new_page, "Epochs")).to_contain_text("300")
    expect(new_page.locator(".offers .ti").first).not_to_have_text(first)
    expect(new_page.locator(".scatter .sc").first).to_be_attached()


def test_a_lint_is_on_its_line_and_its_fix_changes_the_code(new_page: Page) -> None:
    type_code(new_page, SCRIPT)
    lint = new_page.locator(".lint").filter(has_text="no-workers")
    expect(lint).to_be_visible()
    expect(new_page.locator(".cm-lint-text").first).to_have_text("DataLoader")
    lint.get_by_role("button", name="Add num_workers=4").click()
    expect(new_page.locator(".cm-content")).to_contain_text("batch_size=128, num_workers=4)")
    expect(lint).to_have_count(0)


def test_a_fact_shows_its_line(new_page: Page) -> None:
    type_code(new_page, SCRIPT)
    fact(new_page, "Epochs").get_by_role("button").click()
    expect(new_page.locator(".cm-activeLine")).to_have_text(re.compile("EPOCHS"))


def test_a_job_is_submitted_from_the_page_and_completes(new_page: Page, web_server: Server) -> None:
    type_code(new_page, HELLO)
    new_page.get_by_label("Arguments", exact=True).fill("--epochs 3 --name 'two words'")
    new_page.get_by_label("Name", exact=True).fill("from-the-page")
    expect(new_page.get_by_text("on local")).to_be_visible()
    job_id = submit(new_page)
    assert "hello ['--epochs', '3', '--name', 'two words']" in wait_completed(web_server, job_id)
    spec = web_server.job(job_id)["spec"]
    assert spec["name"] == "from-the-page"
    assert spec["placement"]["paid"] is False


def test_control_enter_submits_from_the_editor(new_page: Page, web_server: Server) -> None:
    type_code(new_page, HELLO)
    expect(new_page.get_by_role("button", name="Submit")).to_be_enabled()
    new_page.keyboard.press("Control+Enter")
    new_page.wait_for_url(DOCUMENT_LOADED)
    wait_completed(web_server, new_page.url.rpartition("/")[2])


def test_a_double_click_submits_one_job(new_page: Page, web_server: Server) -> None:
    type_code(new_page, HELLO)
    new_page.get_by_label("Name", exact=True).fill("only-once")
    new_page.get_by_role("button", name="Submit").dblclick()
    new_page.wait_for_url(DOCUMENT_LOADED)
    jobs = web_server.ask("GET", "/api/v1/training?name=only-once").json["jobs"]
    assert len(jobs) == 1


def test_a_folder_is_added_without_what_is_ignored(
    new_page: Page, web_server: Server, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    for path, text in {
        "train.py": "import helpers.text, subprocess\nprint(helpers.text.WORD)\n"
        "print(subprocess.run(['./tool.sh'], capture_output=True, text=True).stdout)\n"
        "import os; print(sorted(os.listdir('.')))\n",
        "helpers/text.py": "WORD = 'imported'\n",
        "tool.sh": "#!/bin/sh\necho executed\n",
        ".gitignore": "*.log\n",
        "big.log": "ignored\n",
        "__pycache__/x.pyc": "ignored\n",
    }.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text)
    (project / "image.bin").write_bytes(bytes(range(256)) * 8000)
    new_page.get_by_label("Folder", exact=True).set_input_files(project)
    expect(new_page.locator(".fsum")).to_contain_text("5 files")
    output = wait_completed(web_server, submit(new_page))
    assert "imported" in output
    assert "executed" in output
    assert "big.log" not in output
    assert "image.bin" in output


def test_dropped_files_become_files_of_the_job(new_page: Page) -> None:
    expect(new_page.locator(".cm-content")).to_be_visible()
    new_page.evaluate(DROP, {"train.py": HELLO, "config.yaml": "epochs: 3\n"})
    expect(new_page.locator(".fsum")).to_contain_text("2 files")
    expect(new_page.locator(".cm-content")).to_contain_text("import anygpu")


def test_a_dropped_folder_is_read_with_its_folders(new_page: Page, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "helpers").mkdir(parents=True)
    (project / "train.py").write_text(HELLO)
    (project / "helpers" / "text.py").write_text("WORD = 1\n")
    (project / ".gitignore").write_text("*.log\n")
    (project / "big.log").write_text("ignored\n")
    pane = new_page.locator(".pane.ed")
    expect(new_page.locator(".cm-content")).to_be_visible()
    box = pane.bounding_box()
    assert box is not None
    data = {"items": [], "files": [str(project)], "dragOperationsMask": 1}
    place = {"x": box["x"] + box["width"] / 2, "y": box["y"] + 100, "data": data}
    devtools = new_page.context.new_cdp_session(new_page)
    for kind in ("dragEnter", "dragOver", "drop"):
        devtools.send("Input.dispatchDragEvent", {"type": kind, **place})
    expect(new_page.locator(".fsum")).to_contain_text("3 files")


def test_a_trainer_form_submits_a_tabular_job(new_page: Page, web_server: Server, tmp_path: Path) -> None:
    table = tmp_path / "flowers.csv"
    rows = [f"{i % 7},{(i * 3) % 11},{'big' if i % 7 > 3 else 'small'}" for i in range(200)]
    table.write_text("\n".join(["length,width,kind", *rows]) + "\n")
    new_page.get_by_label("Files", exact=True).first.set_input_files(table)
    new_page.get_by_role("button", name="Trainer").click()
    new_page.get_by_label("Trainer", exact=True).select_option("tabular")
    new_page.get_by_label("Target (needed)").fill("kind")
    new_page.get_by_label("Epochs", exact=True).fill("3")
    new_page.get_by_label("Model", exact=True).select_option("logistic-regression")
    new_page.get_by_label("Dataset", exact=True).fill("flowers.csv")
    expect(new_page.get_by_text("in your files")).to_be_visible()
    take_screenshot(new_page, "new-trainer")
    job_id = submit(new_page)
    wait_completed(web_server, job_id)
    spec = web_server.job(job_id)["spec"]
    assert spec["config"] == {"target": "kind", "epochs": 3, "model": "logistic-regression"}


def test_a_value_outside_the_bounds_of_a_setting_is_explained(new_page: Page, guard: PageGuard) -> None:
    guard.allow("answer 422")
    new_page.get_by_role("button", name="Trainer").click()
    new_page.get_by_label("Trainer", exact=True).select_option("nanogpt")
    new_page.get_by_label("Epochs", exact=True).fill("0")
    expect(new_page.get_by_text("Write 1 or more.")).to_be_visible()


def test_the_copied_texts_submit_the_same_job(new_page: Page, web_server: Server) -> None:
    type_code(new_page, HELLO)
    new_page.get_by_label("Name", exact=True).fill("copied")
    new_page.get_by_label("Arguments", exact=True).fill("--note '$(id); ok'")
    new_page.get_by_role("button", name="YAML").click()
    text = new_page.get_by_label("The job as yaml")
    expect(text).to_contain_text("manifest")
    spec = from_yaml(text.inner_text()).model_dump(mode="json", exclude_defaults=True)
    dialog = new_page.get_by_role("dialog")
    dialog.get_by_role("button", name="CLI").click()
    command = new_page.get_by_label("The job as cli").inner_text()
    assert shlex.split(command)[-3:] == ["train.py", "--note", "$(id); ok"]
    dialog.get_by_role("button", name="Python").click()
    expect(new_page.get_by_label("The job as python")).to_contain_text("from anygpu import Platform")
    take_screenshot(new_page, "new-copy")
    dialog.get_by_role("button", name="Close").click()
    job_id = submit(new_page)
    submitted = web_server.job(job_id)["spec"]
    submitted.pop("idempotency_key", None)
    assert submitted == spec


def test_a_budget_below_every_offer_names_the_cheapest(new_page: Page) -> None:
    type_code(new_page, SCRIPT)
    budget = new_page.get_by_label("Budget, exact")
    budget.fill("0.02")
    budget.press("Enter")
    callout = new_page.get_by_text("pays for no rented machine")
    expect(callout).to_be_visible()
    expect(callout).to_contain_text("The cheapest is")
    new_page.get_by_role("button", name=re.compile("Raise to")).click()
    expect(callout).to_have_count(0)


def test_the_budget_slider_plans_again(new_page: Page) -> None:
    type_code(new_page, SCRIPT)
    expect(new_page.locator(".offers .off").first).to_be_visible()
    slider = new_page.get_by_label("Budget", exact=True)
    with new_page.expect_response(lambda answer: "/api/v1/plan" in answer.url) as planned:
        slider.press("ArrowLeft")
    sent = json.loads(planned.value.request.post_data or "{}")
    assert sent["spec"]["limits"]["max_cost_microusd"] > 0
    expect(new_page.locator(".scatter .zone")).to_have_count(1)


def test_the_deadline_slider_plans_again_and_shows_what_it_excludes(new_page: Page) -> None:
    type_code(new_page, SCRIPT)
    expect(new_page.locator(".offers .off").first).to_be_visible()
    slider = new_page.get_by_label("Deadline", exact=True)
    with new_page.expect_response(lambda answer: "/api/v1/plan" in answer.url) as planned:
        slider.press("ArrowLeft")
    sent = json.loads(planned.value.request.post_data or "{}")
    assert sent["spec"]["limits"]["deadline_s"] > 0
    expect(new_page.locator(".scatter .zone.late")).to_have_count(1)
    with new_page.expect_response(lambda answer: "/api/v1/plan" in answer.url) as planned:
        slider.press("Home")
    assert planned.value.ok


def test_rejected_offers_are_listed_with_their_reasons(new_page: Page) -> None:
    type_code(new_page, SCRIPT)
    rejected = new_page.locator("details.rej")
    rejected.get_by_text(re.compile("rejected offer")).click()
    expect(rejected.get_by_role("listitem").first).to_be_visible()
    expect(rejected.get_by_role("listitem").first).to_contain_text(re.compile(r"\d+\D+"))


def test_errors_of_the_server_are_shown_at_their_fields(new_page: Page, guard: PageGuard) -> None:
    guard.allow("answer 422")
    type_code(new_page, HELLO)
    new_page.get_by_label("GPU", exact=True).fill("A100:x:y")
    expect(new_page.locator(".field-error")).to_contain_text("is not a GPU")
    new_page.get_by_label("GPU", exact=True).fill("")
    expect(new_page.locator(".field-error")).to_have_count(0)


def test_the_draft_survives_a_reload(new_page: Page) -> None:
    type_code(new_page, HELLO)
    new_page.get_by_label("Arguments", exact=True).fill("--kept")
    new_page.reload()
    expect(new_page.locator(".cm-content")).to_contain_text("import anygpu")
    expect(new_page.get_by_label("Arguments", exact=True)).to_have_value("--kept")


def test_a_clone_has_the_code_and_the_settings_of_its_job(
    open_page: PageOpener, new_page: Page, web_server: Server
) -> None:
    type_code(new_page, HELLO)
    new_page.get_by_label("Arguments", exact=True).fill("--first")
    first = submit(new_page)
    clone = open_page(f"/new?from={first}")
    expect(clone.locator(".cm-content")).to_contain_text("import anygpu")
    arguments = clone.get_by_label("Arguments", exact=True)
    expect(arguments).to_have_value("--first")
    clone.reload()  # a page that is left keeps its draft
    expect(arguments).to_have_value("--first")
    assert clone.evaluate("id => localStorage.getItem(`anygpu.draft:${id}`)", first) is None
    arguments.fill("--unwanted")
    clone.reload()
    expect(arguments).to_have_value("--unwanted")
    expect(clone.get_by_text("This clone has your changes")).to_be_visible()
    check_accessibility(clone)
    take_screenshot(clone, "new-clone-changed")
    clone.get_by_role("button", name="Start again from the job").click()
    expect(arguments).to_have_value("--first")
    expect(clone.get_by_text("This clone has your changes")).to_have_count(0)
    arguments.fill("--second")
    assert "hello ['--second']" in wait_completed(web_server, submit(clone))


def test_a_clone_shows_what_the_form_cannot_and_submits_the_same_job(
    open_page: PageOpener, web_server: Server, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("print('done')\n")
    first = web_server.submit(
        script="train.py",
        args=["--text", "two words", "a\nb"],
        name="hostile",
        workdir={"path": str(tmp_path)},
        tags=["lr=0.1, wd=0", "plain"],
        env={"CONFIG": "a: 1\nb: 2", "SPACE": "end ", "PLAIN": "x=y", "EMPTY": ""},
        setup=["true\ntrue"],
        limits={"timeout": "90s", "max_cost": "$10"},
        resources={"memory": "1GB", "cpus": 0.5},
        placement={"strategy": "cheapest", "paid": False, "allowed": ["local"], "interruptible": "yes"},
    )
    clone = open_page(f"/new?from={first}")
    for place in ("args", "tags", "setup", "env.CONFIG", "placement.allowed", "placement.interruptible"):
        expect(kept_values(clone).get_by_text(place, exact=True)).to_be_visible()
    expect(clone.get_by_label("Environment")).to_have_value("PLAIN=x=y\nEMPTY=")
    check_accessibility(clone)
    take_screenshot(clone, "new-clone")
    again = submit(clone)
    specs = [web_server.job(job_id)["spec"] for job_id in (first, again)]
    for spec in specs:
        spec.pop("idempotency_key", None)
    assert specs[0] == specs[1]

    clone = open_page(f"/new?from={first}")
    for place in ("placement.interruptible", "env.CONFIG", "tags"):
        clone.get_by_role("button", name=f"Remove {place}", exact=True).click()
        expect(kept_values(clone).get_by_text(place, exact=True)).to_have_count(0)
    freed = web_server.job(submit(clone))["spec"]
    assert freed["env"] == {"SPACE": "end ", "PLAIN": "x=y", "EMPTY": ""}
    assert freed["placement"] == {"strategy": "cheapest", "paid": False, "allowed": ["local"]}
    assert "tags" not in freed


def test_files_are_added_renamed_and_removed(new_page: Page) -> None:
    new_page.get_by_role("button", name="New file").click()
    new_page.get_by_label("Path in the working directory").fill("../out.py")
    new_page.get_by_role("button", name="Add the file").click()
    expect(new_page.get_by_text("Write a path inside the working directory")).to_be_visible()
    new_page.get_by_label("Path in the working directory").fill("lib/net.py")
    new_page.get_by_role("button", name="Add the file").click()
    tabs = new_page.get_by_role("navigation", name="Files")
    expect(tabs.get_by_role("button", name="lib/net.py")).to_be_visible()
    new_page.get_by_role("button", name="Actions for the open file").click()
    new_page.get_by_role("menuitem", name="Rename").click()
    new_page.get_by_label("Path in the working directory").fill("lib/model.py")
    new_page.get_by_role("button", name="Rename", exact=True).click()
    expect(tabs.get_by_role("button", name="lib/model.py")).to_be_visible()
    new_page.get_by_role("button", name="Actions for the open file").click()
    new_page.get_by_role("menuitem", name="Remove").click()
    expect(tabs.get_by_role("button", name="lib/model.py")).to_have_count(0)


def test_the_request_of_the_chosen_offer_is_shown_when_it_is_opened(new_page: Page) -> None:
    type_code(new_page, HELLO)
    new_page.get_by_text("Native request").click()
    shown = new_page.locator("details.native")
    expect(shown).to_contain_text("process on the server's machine")
    expect(shown).to_contain_text("(the one-time ticket of the attempt)")
    check_accessibility(new_page)


def test_a_viewer_sees_the_plan_and_no_submit_button(open_page: PageOpener) -> None:
    page = open_page("/new", role="viewer")
    type_code(page, SCRIPT)
    expect(page.locator(".offers .off").first).to_be_visible()
    expect(page.get_by_role("button", name="Submit")).to_have_count(0)
    page.get_by_role("button", name="CLI").click()
    expect(page.get_by_label("The job as cli")).to_contain_text("anygpu run")


def test_hostile_names_are_only_text(new_page: Page) -> None:
    hostile = '<img src=x onerror="window.hacked=1">.py'
    type_code(new_page, HELLO)
    new_page.get_by_role("button", name="New file").click()
    new_page.get_by_label("Path in the working directory").fill(hostile)
    new_page.get_by_role("button", name="Add the file").click()
    with new_page.expect_response(
        lambda answer: "/api/v1/plan" in answer.url and "<b>x</b>" in (answer.request.post_data or "")
    ) as planned:
        type_code(new_page, f'import torch\nopen("/data/{"<b>x</b>"}")\n')
    assert json.dumps(hostile) in (planned.value.request.post_data or "")
    expect(new_page.locator(".offers .off").first).to_be_visible()
    expect(new_page.locator("b", has_text=re.compile("^x$"))).to_have_count(0)
    expect(new_page.get_by_role("button", name=hostile)).to_be_visible()
    assert new_page.evaluate("window.hacked") is None


@pytest.mark.parametrize(
    ("screen", "dark"),
    [("desktop", False), ("desktop", True), ("laptop", False), ("phone", False), ("phone", True)],
)
def test_the_page_is_accessible_and_fits_the_screen(open_page: PageOpener, screen: str, dark: bool) -> None:
    page = open_page("/new", screen=screen, dark=dark)
    type_code(page, SCRIPT)
    expect(page.locator(".offers .off").first).to_be_visible()
    expect(page.locator(".lint").first).to_be_visible()
    check_accessibility(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    take_screenshot(page, f"new-{screen}-{'dark' if dark else 'light'}", full=screen == "phone")
