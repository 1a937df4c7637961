"""The command that starts an agent on a node of a batch engine, run by a real shell."""

import subprocess
import sys
from pathlib import Path

from anygpu.backends.batch.command import NO_PYTHON_EXIT, agent_command, ticket_content
from anygpu.backends.contract import LaunchRequest
from anygpu.spec.sections import Resources


def _run(command: str, **env: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", **env}
    )


def test_the_given_python_runs_the_agent_with_its_directory(tmp_path: Path) -> None:
    agent = tmp_path / "agent with a space.pyz"
    agent.write_text("import sys; print(sys.argv[1:])")
    done = _run(agent_command(str(agent), "/some dir", python=sys.executable))
    assert done.stdout.strip() == "['/some dir']"
    assert done.returncode == 0


def test_the_agent_replaces_the_shell_and_its_exit_code_is_kept(tmp_path: Path) -> None:
    agent = tmp_path / "agent.pyz"
    agent.write_text("import sys; sys.exit(7)")
    assert _run(agent_command(str(agent), "/d", python=sys.executable)).returncode == 7


def test_without_a_python_the_command_says_what_to_do(tmp_path: Path) -> None:
    done = _run(agent_command("/agent.pyz", "/d", python="no-such-python"))
    assert done.returncode == NO_PYTHON_EXIT
    assert "no Python 3.9 or newer was found on this node; install one" in done.stderr


def test_a_python_on_the_path_is_found(tmp_path: Path) -> None:
    agent = tmp_path / "agent.pyz"
    agent.write_text("print('started')")
    found = tmp_path / "python3"
    found.symlink_to(sys.executable)
    assert _run(agent_command(str(agent), "/d"), PATH=f"{tmp_path}:/usr/bin:/bin").stdout == "started\n"


def test_the_ticket_tells_the_agent_where_it_is_and_what_a_sigterm_means() -> None:
    launch = LaunchRequest(
        name="anygpu-1-1", job_id="j", attempt=1, ticket="t", agent_url="http://a:1", resources=Resources()
    )
    plain = {"protocol": 1, "url": "http://a:1", "name": "anygpu-1-1", "ticket": "t", "remote": True}
    assert ticket_content(launch) == plain
    more = {"sigterm_notice_s": 30, "sigurg_notice_s": 120, "in_image": True}
    assert ticket_content(launch, sigterm_notice_s=30, sigurg_notice_s=120, in_image=True) == plain | more
