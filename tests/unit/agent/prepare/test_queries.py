"""A program of the machine answers, fails, is missing, or takes too long."""

import os
import sys

from anygpu.agent.prepare.queries import query_output

GENEROUS_S = 60.0


def ask(code: str, timeout_s: float = GENEROUS_S, env: dict[str, str] | None = None) -> str | None:
    return query_output([sys.executable, "-c", code], timeout_s=timeout_s, env=env)


def test_the_standard_output_is_returned_and_errors_are_left_out() -> None:
    assert ask("import sys; print('580.1'); print('a warning', file=sys.stderr)") == "580.1\n"


def test_invalid_characters_are_replaced() -> None:
    assert ask("import sys; sys.stdout.buffer.write(bytes([255]))") == "\ufffd"


def test_a_program_that_fails_or_is_missing_has_no_answer() -> None:
    assert ask("print('580.1'); raise SystemExit(3)") is None
    assert query_output(["anygpu-has-no-such-program"], timeout_s=GENEROUS_S) is None


def test_a_program_that_takes_too_long_has_no_answer() -> None:
    assert ask("import threading; threading.Event().wait()", timeout_s=0.2) is None


def test_the_environment_of_the_job_is_used_if_it_is_given() -> None:
    code = "import os; print(os.environ.get('CHOSEN'))"
    assert ask(code, env={**os.environ, "CHOSEN": "yes"}) == "yes\n"
