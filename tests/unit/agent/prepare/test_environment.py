"""The environment of a job."""

from __future__ import annotations

from anygpu.agent.prepare import environment


def test_only_what_a_job_needs_passes_into_its_environment() -> None:
    around = {
        "PATH": "/bin",
        "LC_ALL": "C",
        "CUDA_VISIBLE_DEVICES": "0",
        "AWS_SECRET_ACCESS_KEY": "x",
        "ANYGPU_TOKEN": "y",
    }
    assert set(environment.filter_environment(around)) == {"PATH", "LC_ALL", "CUDA_VISIBLE_DEVICES"}
