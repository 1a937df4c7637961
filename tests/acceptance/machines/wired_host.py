"""An SSH host in a thread, for tests that are not asynchronous, and a wire to it that can be cut."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from anygpu.testing.servers.cuttable_proxy import CuttableProxy
from anygpu.testing.servers.ssh_host import SshTestHost


@contextlib.contextmanager
def open_wired_host(folder: Path, path: tuple[str, ...] = ()) -> Iterator[tuple[SshTestHost, CuttableProxy]]:
    """Run an SSH host and the wire to it. `path`: the directories of the variable PATH on the host."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(30)

    host = SshTestHost("asyncssh", folder, path=path)
    run(host.open())
    wire = CuttableProxy(host.port)
    run(wire.__aenter__())
    try:
        yield host, wire
    finally:
        run(wire.__aexit__())
        run(host.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
