"""Ask a program of the machine, such as `nvidia-smi` or a Python, for a short answer."""

from __future__ import annotations

import subprocess


def query_output(argv: list[str], *, timeout_s: float, env: dict[str, str] | None = None) -> str | None:
    """Return the standard output of a command, or None if it failed or took too long."""
    try:
        done = subprocess.run(
            argv,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None
