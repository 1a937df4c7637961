"""The bootstrap command."""

from anygpu.backends.ssh.bootstrap import FIND_PYTHON, bootstrap_command


def test_any_login_shell_can_read_the_bootstrap_command() -> None:
    assert not set("'\\!\n") & set(FIND_PYTHON)
    assert bootstrap_command().startswith(f"sh -c '{FIND_PYTHON}' anygpu ")
    assert bootstrap_command("/opt/my python/bin/python").endswith(" '/opt/my python/bin/python'")
