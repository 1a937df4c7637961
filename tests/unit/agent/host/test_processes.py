"""Processes of an attempt are found by the name in their environment."""

import os
import subprocess

from anygpu.agent.host import processes


def test_every_process_of_an_attempt_is_found_and_killed() -> None:
    name = f"anygpu-{os.urandom(8).hex()}-1"
    # A variable whose name only ends like ours comes first.
    env = {"PATH": os.environ["PATH"], "MY_ANYGPU_NAME": "other", "ANYGPU_NAME": name}
    with subprocess.Popen(["sh", "-c", "setsid sleep 1000 & exec sleep 1000"], env=env) as process:
        try:
            while len(processes.processes_by_attempt().get(name, [])) < 2:
                assert process.poll() is None
            assert process.pid in processes.processes_by_attempt()[name]
        finally:
            assert processes.kill_attempt(name)
    assert name not in processes.processes_by_attempt()


def test_a_prewarmed_agent_belongs_to_no_attempt() -> None:
    env = {"PATH": os.environ["PATH"], "ANYGPU_NAME": processes.PLACEHOLDER_NAME}
    with subprocess.Popen(["sleep", "1000"], env=env) as process:
        assert processes.PLACEHOLDER_NAME not in processes.processes_by_attempt()
        process.kill()
