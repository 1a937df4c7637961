"""A job is submitted, watched and cancelled with the keyboard alone."""

import re

from playwright.sync_api import Page, expect
from tests.acceptance.server.real_server import Server
from tests.acceptance.web.browser import take_screenshot

FOCUSED = """
() => {
  const element = document.activeElement;
  if (element === null) return "";
  const role = element.role ?? element.tagName.toLowerCase();
  return `${role} ${(element.ariaLabel ?? element.innerText ?? "").trim()}`;
}
"""
# The outline, or what a parent shows instead, differs from that of the same element without focus.
HAS_RING = """
async () => {
  const shown = (element) => {
    const style = getComputedStyle(element);
    return [style.outlineStyle, style.outlineWidth, style.boxShadow, style.borderColor].join();
  };
  const element = document.activeElement;
  const parents = [element, element.parentElement, element.parentElement?.parentElement].filter(Boolean);
  const drawn = () => new Promise((done) => setTimeout(done, 50)); // the editor shows its focus a moment later
  await drawn();
  const focused = parents.map(shown);
  element.blur();
  await drawn();
  const plain = parents.map(shown);
  element.focus({ focusVisible: true });
  return focused.some((each, index) => each !== plain[index]);
}
"""
MOST_STOPS = 80
# It waits after step 20 until it is cancelled, so that the line stays in the part of the log that is shown.
CODE = (
    "import time, anygpu",
    "for step in range(1, 10_000):",
    "anygpu.log(loss=1 / step, step=step)",
    "print('step', step, flush=True)",
    "while step == 20: time.sleep(1)",
)
LIMIT_MS = 60_000


def tab_to(page: Page, name: str) -> None:
    """Press Tab until the element with this role and name has the focus, and check that it shows that."""
    stops: list[str] = []
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        stops.append(page.evaluate(FOCUSED))
        if re.search(name, stops[-1]):
            assert page.evaluate(HAS_RING), f"{stops[-1]!r} does not show that it has the focus"
            return
    raise AssertionError(f"Tab does not reach {name!r}: {stops}")


def test_a_job_is_submitted_watched_and_cancelled(page: Page, web_server: Server) -> None:
    expect(page.get_by_role("link", name="Jobs", exact=True)).to_be_visible()
    page.keyboard.press("n")
    expect(page).to_have_url(re.compile("/new"))
    expect(page.locator(".cm-content")).to_be_visible()
    tab_to(page, "^textbox train[.]py$")
    page.keyboard.press("Control+A")
    for line in CODE:
        page.keyboard.type(line)
        page.keyboard.press("Enter")
    page.keyboard.press("Control+Enter")
    expect(page).to_have_url(re.compile(r"/jobs/[0-9a-f-]{36}"))
    job_id = page.url.rpartition("/")[2]

    expect(page.locator('figure[data-metric="loss"] canvas').first).to_be_visible()
    page.keyboard.press("2")
    expect(page.get_by_text("step 20", exact=True)).to_be_visible(timeout=LIMIT_MS)
    page.keyboard.press("w")
    expect(page.get_by_role("button", name=re.compile("watch", re.IGNORECASE)).first).to_be_visible()
    take_screenshot(page, "keyboard-watched")

    tab_to(page, "^button Cancel$")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Keep it running")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Cancel", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Keep it running")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Cancel the job")).to_be_focused()
    page.keyboard.press("Enter")
    assert web_server.wait_ended(job_id)["status"] == "cancelled"
    expect(page.get_by_text("Cancelled").first).to_be_visible()

    tab_to(page, "^button More actions$")
    page.keyboard.press("Enter")
    page.get_by_role("menuitem", name="Delete the job").press("Enter")
    expect(page.get_by_role("alertdialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="More actions")).to_be_focused()


def test_the_command_palette_opens_a_view(page: Page) -> None:
    expect(page.get_by_role("link", name="Jobs", exact=True)).to_be_visible()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox")).to_be_focused()
    page.keyboard.type("costs")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/costs"))
    page.keyboard.press("g")
    page.keyboard.press("m")
    expect(page).to_have_url(re.compile("/machines"))
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).not_to_be_visible()


def test_the_command_palette_shows_the_chosen_entry_and_gives_the_focus_away(page: Page) -> None:
    search = page.get_by_role("searchbox", name="Search jobs")
    search.focus()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox")).to_be_focused()
    page.keyboard.press("Escape")
    expect(search).to_be_focused()
    page.keyboard.press("Control+k")
    page.keyboard.press("ArrowUp")  # from the first entry to the last
    last = page.get_by_role("option").last
    expect(last).to_have_attribute("aria-selected", "true")
    expect(last).to_be_in_viewport(ratio=0.9)
    page.keyboard.type("search jobs")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(search).to_be_focused()


def test_the_command_palette_opens_no_job_of_an_earlier_text(page: Page, web_server: Server) -> None:
    wanted, other = (web_server.submit(code="pass", name=f"palette-{name}") for name in ("wanted", "other"))
    page.route(re.compile(r"/api/v1/training\?.*wanted"), lambda route: None)  # this search gets no answer
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("palette")
    options = page.get_by_role("option")
    expect(options.filter(has_text=re.compile("palette"))).to_have_count(2)
    expect(options.first).to_contain_text("other")  # the newest
    page.get_by_role("combobox").fill("palette wanted")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/jobs/({wanted}|{other})"))
    assert page.url.endswith(wanted)
