"""Trains nothing, saves every ten steps, and obeys: the job of the tests with machines that die."""

import sys
import time
from pathlib import Path

import anygpu

steps, step_s = int(sys.argv[1]), float(sys.argv[2])
resume = anygpu.resume_path()
start = int(Path(resume).read_text()) if resume else 0
state = Path("state.txt")
for step in range(start + 1, steps + 1):
    time.sleep(step_s)
    anygpu.log({"value": float(step)}, step=step)
    stopping = anygpu.should_stop()
    if step % 10 == 0 or stopping:
        state.write_text(str(step))
        anygpu.checkpoint(state, step=step)
    if stopping:
        raise SystemExit(0)
gate = Path(sys.argv[3]) if len(sys.argv) > 3 else None  # the job ends only when this file exists
while gate and not gate.exists():
    if anygpu.should_stop():  # everything is saved
        raise SystemExit(0)
    time.sleep(0.05)
print("done", flush=True)
