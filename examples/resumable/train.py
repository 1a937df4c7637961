"""A script that saves and restores by itself. anygpu needs to be told only where, and how to start it again.

anygpu run --checkpoint 'state.json' --resume-arg=--resume --resume-arg='{path}' train.py
"""

import argparse
import json
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--resume", type=Path)
args = parser.parse_args()

step, weight = 0, 10.0
if args.resume:
    step, weight = json.loads(args.resume.read_text())
    print(f"resumed at step {step}")

while step < args.steps:
    time.sleep(0.05)
    step, weight = step + 1, weight * 0.9
    print(f"step {step}/{args.steps} loss={weight**2:.4f}")
    if step % 10 == 0:
        scratch = Path("state.json.new")
        scratch.write_text(json.dumps([step, weight]))
        scratch.replace("state.json")
