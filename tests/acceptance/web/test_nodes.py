"""A job on several machines: its nodes on the job page, and the log of each."""

import asyncio
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.acceptance.server.real_server import Server
from tests.acceptance.web.browser import check_accessibility, take_screenshot
from tests.acceptance.web.conftest import PageOpener

from anygpu.testing.servers.ssh_host import BEST_SERVER, SshTestHost, open_ssh_host

pytestmark = [pytest.mark.extended, pytest.mark.timeout(180)]

PROGRAM = """
import os, time
folder, rank = {folder!r}, os.environ["RANK"]
print(f"rank {{rank}} begins", flush=True)
while not os.path.exists(os.path.join(folder, "more")):
    time.sleep(0.05)
print(f"rank {{rank}} continues", flush=True)
while rank == "0" or not os.path.exists(os.path.join(folder, "go")):
    time.sleep(0.05)
raise SystemExit(3)
"""


class HostThread:
    """Two loopback SSH hosts in an event loop of their own, because Playwright uses the main thread's."""

    def __init__(self, folder: Path) -> None:
        self.hosts: list[SshTestHost] = []
        self._folder = folder
        self._loop = asyncio.new_event_loop()
        self._stack = AsyncExitStack()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(30)

    async def _open(self) -> None:
        for number in range(2):
            host = open_ssh_host(BEST_SERVER, self._folder / f"host{number}")
            self.hosts.append(await self._stack.enter_async_context(host))

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._stack.aclose(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()


@pytest.fixture
def lab(web_server: Server, tmp_path: Path) -> Iterator[str]:
    """A backend of two hosts; the value is its name."""
    made = HostThread(tmp_path)
    body = {
        "name": "lab",
        "kind": "ssh",
        "options": {"hosts": [f"{host.user}@127.0.0.1:{host.port}" for host in made.hosts], "cpus": 1},
        "credentials": {"private_key": made.hosts[0].key.private_openssh},
    }
    assert web_server.ask("POST", "/api/v1/backends", body).status == 201
    yield "lab"
    web_server.cancel_everything()
    web_server.ask("DELETE", "/api/v1/backends/lab?force=true")
    made.close()


def choose_node(page: Page, shown: int, wanted: int) -> None:
    page.get_by_role("button", name=f"Node {shown}").click()
    page.get_by_role("menuitem", name=f"Node {wanted}").click()


def test_the_log_of_each_node_is_chosen_followed_and_searched(
    open_page: PageOpener, web_server: Server, lab: str, tmp_path: Path
) -> None:
    job_id = web_server.submit(
        code=PROGRAM.format(folder=str(tmp_path)),
        name="two-nodes",
        python=sys.executable,
        placement={"allowed": [lab]},
        resources={"nodes": 2, "cpus": 1},
    )
    page = open_page(f"/jobs/{job_id}?tab=log")
    log = page.get_by_role("region", name="Log, newest lines last")
    expect(log.get_by_text("rank 0 begins")).to_be_visible(timeout=60_000)
    nodes = page.get_by_role("region", name="Nodes of the job")
    expect(nodes.get_by_role("row", name=re.compile("Node 1.*rank 1.*Training"))).to_be_visible()

    choose_node(page, 0, 1)
    expect(page).to_have_url(re.compile("[?&]node=1"))
    expect(log.get_by_text("rank 1 begins")).to_be_visible()
    expect(log.get_by_text("rank 0 begins")).to_have_count(0)
    (tmp_path / "more").touch()
    expect(log.get_by_text("rank 1 continues")).to_be_visible()
    page.get_by_role("searchbox", name="Search the log").fill("rank 1")
    expect(page.get_by_text("2 hits")).to_be_visible()
    download = page.get_by_role("link", name="Download the log")
    expect(download).to_have_attribute("href", re.compile("attempt=1&node=1"))
    check_accessibility(page)
    take_screenshot(page, "nodes-log")
    page.reload()
    expect(log.get_by_text("rank 1 continues")).to_be_visible()

    (tmp_path / "go").touch()
    web_server.wait_ended(job_id, 60)
    expect(nodes.get_by_role("row", name=re.compile("Node 1.*Failed.*exit code 3"))).to_be_visible()
    expect(page.get_by_text("all output is here")).to_be_visible()
    nodes.get_by_role("link", name="Node 0").click()
    expect(log.get_by_text("rank 0 begins")).to_be_visible()
    expect(nodes.get_by_role("row", name=re.compile("Node 0.*because another node failed"))).to_be_visible()
    page.get_by_role("link", name="Open the log of node 1").click()
    expect(log.get_by_text("rank 1 continues")).to_be_visible()
    page.goto(f"/jobs/{job_id}?tab=log&node=7")
    expect(log.get_by_text("rank 0 begins")).to_be_visible()
    for dark, screen in ((True, "desktop"), (False, "phone")):
        other = open_page(f"/jobs/{job_id}?node=1", dark=dark, screen=screen)
        expect(other.get_by_role("region", name="Nodes of the job")).to_contain_text("exit code 3")
        check_accessibility(other)
        other.get_by_role("heading", name="Nodes", exact=True).scroll_into_view_if_needed()
        take_screenshot(other, f"nodes-{'dark' if dark else screen}")
