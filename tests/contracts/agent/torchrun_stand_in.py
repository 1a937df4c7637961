"""A package `torch` that has only a program which starts processes like torchrun, for tests without torch."""

from __future__ import annotations

from pathlib import Path

# Like torchrun, it gives its processes no descriptors but stdin, stdout and stderr, and stops all when one fails.
TORCHRUN = """
import argparse, os, signal, subprocess, time
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

class SignalException(Exception):
    pass

def stop(number, frame):
    raise SignalException(f"got signal {number}")

def main(arguments):
    parser = argparse.ArgumentParser()
    for name in ("nnodes", "node-rank", "nproc-per-node", "max-restarts", "master-port"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--master-addr")
    parser.add_argument("--no-python", action="store_true", required=True)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    processes = [
        subprocess.Popen(given.command, start_new_session=True, env={**os.environ, "LOCAL_RANK": str(each),
            "RANK": str(given.node_rank * given.nproc_per_node + each)})
        for each in range(given.nproc_per_node)
    ]
    signal.signal(signal.SIGTERM, stop)
    try:
        while any(each.poll() is None for each in processes) and not any(each.poll() for each in processes):
            time.sleep(0.02)
        failed = [ProcessFailure(each.returncode) for each in processes if each.returncode]
    finally:
        for each in processes:
            if each.poll() is None:
                os.killpg(each.pid, signal.SIGTERM)
        for each in processes:
            each.wait()
    if failed:
        raise ChildFailedError("", dict(enumerate(failed)))
"""
ERRORS = """
from dataclasses import dataclass, field

@dataclass
class ProcessFailure:
    exitcode: int
    timestamp: int = field(init=False)

    def __post_init__(self):
        self.timestamp = 1

class ChildFailedError(Exception):
    def __init__(self, name, failures):
        super().__init__(f"{name} FAILED")
        self.failures = failures
"""


def install_torchrun(folder: Path) -> None:
    """Write the package to a folder that jobs have in PYTHONPATH."""
    for name, text in {"run.py": TORCHRUN, "elastic/multiprocessing/errors.py": ERRORS}.items():
        path = folder / "torch/distributed" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
