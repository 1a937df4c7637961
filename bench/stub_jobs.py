"""The agents of many Slurm jobs in one process. Jobs write the directory of their attempt to a named pipe.

`python -m bench.stub_jobs PIPE PORT` creates the pipe, prints a line, and runs until it is terminated.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from bench.stub_agent import StubAgent


async def main(pipe: Path, port: int) -> None:
    os.mkfifo(pipe)
    # Open for reading and writing, so that the pipe does not end when no job has it open.
    descriptor = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb"))
    print("ready", flush=True)
    agents = set()
    while line := await reader.readline():
        ticket = json.loads((Path(line.decode().strip()) / "ticket.json").read_text())
        task = asyncio.create_task(StubAgent(ticket["ticket"], port).run())
        agents.add(task)
        task.add_done_callback(agents.discard)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
