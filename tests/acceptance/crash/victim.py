"""The job of the crash test: trains nothing, but keeps its own books of everything it says."""

import fcntl
import os
import sys
import time
from pathlib import Path

import anygpu

books = Path(sys.argv[1])
steps = int(sys.argv[2])
job, attempt = os.environ["ANYGPU_JOB_ID"], os.environ["ANYGPU_ATTEMPT"]

lock = (books / f"{job}.lock").open("w")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    (books / f"{job}.twice").write_text(attempt)

resume = anygpu.resume_path()
start = int(Path(resume).read_text()) if resume else 0
said = (books / f"{job}.{attempt}.said").open("w", buffering=1)
logged = (books / f"{job}.{attempt}.logged").open("w", buffering=1)
state = Path("state.txt")

for step in range(start + 1, steps + 1):
    line = f"attempt {attempt} step {step}"
    said.write(line + "\n")
    print(line, flush=True)
    logged.write(f"{step}\n")
    anygpu.log({"value": float(step)}, step=step)
    if step % 5 == 0:
        state.write_text(str(step))
        anygpu.checkpoint(state, step=step)
    time.sleep(0.04)
Path("result.txt").write_text(f"done from {start}")
