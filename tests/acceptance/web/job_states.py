"""Jobs that a project has after some work, for pages to show: finished, failed, running, waiting, and hostile ones."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.acceptance.server.real_server import Server

MARKUP = '"><img src=x data-hostile onerror="window.hostile=1">'
SCRIPT = "<script data-hostile>window.hostile=1</script>"
LINK = "\x1b]8;;javascript:window.hostile=1\x07click\x1b]8;;\x07"
FILE = "<img src=x data-hostile onerror=window.hostile=1>.txt"
TABS = ("overview", "log", "plan", "checkpoints", "artifacts", "events", "spec")  # of the page of a job
SLOTS = 4  # CPUs of the tests' server

TRAINING = """
import anygpu
for step in range(1, 31):
    anygpu.log({"loss": 1 / step, "val/accuracy": 1 - 1 / (step + 1)}, step=step)
    anygpu.progress(step=step, steps=30, epoch=step // 10, epochs=3, message="training")
    print(f"step {step}/30 loss={1 / step:.4f}")
with open("model.txt", "w") as file:
    file.write("weights " * 100)
anygpu.checkpoint("model.txt", step=30)
anygpu.best("model.txt")
"""
FAILING = "print('loading data')\nraise ValueError('shapes (3, 4) and (5, 6) do not match')\n"
WAITING = """
import anygpu, time
for step in range(1, 100_000):
    anygpu.log(loss=1 / step, step=step)
    anygpu.progress(step=step, steps=100_000)
    print(f"step {step}", flush=True)
    time.sleep(0.2)
"""
HOSTILE = f"""
import anygpu, sys
markup, script, link, file = {MARKUP!r}, {SCRIPT!r}, {LINK!r}, {FILE!r}
print(markup, script, link, flush=True)
print("\\x1b[31m" + markup + "\\x1b[0m", script, file=sys.stderr, flush=True)
for step in range(1, 6):
    anygpu.log({{f"loss {{markup}}": 1 / step, f"val/{{script}}": step}}, step=step)
    anygpu.progress(step=step, steps=5, message=markup + script)
with open(file, "w") as opened:
    opened.write(markup + script)
anygpu.artifact(file)
anygpu.checkpoint(file, step=5)
raise SystemExit(markup + script)
"""


@dataclass(frozen=True)
class SampleJobs:
    """The ids of jobs in every state."""

    finished: str
    other: str
    failed: str
    hostile: str
    running: str
    queued: str

    @property
    def all(self) -> tuple[str, ...]:
        return (self.finished, self.other, self.failed, self.hostile, self.running, self.queued)


def create_sample_jobs(server: Server) -> SampleJobs:
    """Submit the jobs, and wait until each is in its state."""
    finished = submit(server, "digits", TRAINING, tags=["baseline"])
    other = submit(server, "digits-wide", TRAINING, tags=["wide"], env={"WIDTH": "512"})
    failed = submit(server, "wrong-shapes", FAILING)
    hostile = submit(server, "hostile", HOSTILE, env={"TEXT": MARKUP + SCRIPT})
    for each in (finished, other, failed, hostile):
        server.wait_ended(each, 60)
    server.ask("PATCH", f"/api/v1/training/{hostile}", {"notes": MARKUP + SCRIPT})
    running = submit(server, "long-run", WAITING, resources={"cpus": SLOTS})
    server.wait(running, lambda job: job["phase"] == "training" and bool(job["metrics"]), 60)
    queued = submit(server, "next", TRAINING)
    server.wait(queued, lambda job: bool(job["reason"]), 60)
    return SampleJobs(finished, other, failed, hostile, running, queued)


def submit(server: Server, name: str, code: str, **more: Any) -> str:
    return server.submit(code=code, name=name, **more)


def views(jobs: SampleJobs) -> Iterator[tuple[str, str]]:
    """Return a name and the path of every view."""
    yield "jobs", "/jobs"
    yield "job-running", f"/jobs/{jobs.running}"
    for tab in TABS:
        yield f"job-{tab}", f"/jobs/{jobs.finished}?tab={tab}"
    yield "job-failed", f"/jobs/{jobs.failed}"
    yield "job-queued", f"/jobs/{jobs.queued}"
    yield "new", "/new"
    yield "new-clone", f"/new?from={jobs.finished}"
    yield "compare", f"/compare?jobs={jobs.finished},{jobs.other}"
    for name in ("queue", "costs", "machines", "accuracy", "settings"):
        yield name, f"/{name}"
