from typing import Any

import pytest
from click.testing import CliRunner

from anygpu.cli.admin import server


class FakeClient:
    def gc(self, *, dry_run: bool, **options: bool) -> dict[str, Any]:
        refused = None if options["force"] else "why"
        return {"jobs": ["a", "b"], "log_bytes": 10, "refused": refused, "dry_run": dry_run}


def test_gc_counts_lists_and_says_when_nothing_was_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "connect", lambda _: FakeClient())
    done = CliRunner().invoke(server.gc_command, ["--dry-run", "--force"])
    assert done.stdout.splitlines() == ["jobs       2", "log bytes  10", "Nothing was deleted (dry run)."]
    assert done.exit_code == 0


def test_gc_fails_if_the_server_refuses_to_remove_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "connect", lambda _: FakeClient())
    done = CliRunner().invoke(server.gc_command)
    assert done.stdout.splitlines()[-1] == "refused    why"
    assert done.exit_code == 1


def test_down_without_a_server_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("ANYGPU_STATE", str(tmp_path))
    assert CliRunner().invoke(server.down_command).stdout == "No server is running on this computer.\n"
