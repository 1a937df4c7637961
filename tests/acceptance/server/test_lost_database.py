"""A server whose database was lost keeps the stored files."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.acceptance.server.real_server import Server
from tests.acceptance.server.test_damage import run_cli

NewServer = Callable[..., Server]
DATABASE_FILES = ("anygpu.db", "anygpu.db-wal", "anygpu.db-shm")


def stored_files(server: Server) -> set[str]:
    root = server.state / "blobs"
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def make_old(server: Server) -> None:
    week_ago = time.time() - 7 * 86400
    for path in (server.state / "blobs" / "org").rglob("*"):
        os.utime(path, (week_ago, week_ago))


def gc(server: Server, query: str = "") -> dict[str, Any]:
    answer = server.ask("POST", f"/api/v1/gc{query}")
    assert answer.status == 200, answer.data
    report: dict[str, Any] = answer.json
    return report


def job_with_an_output(server: Server) -> str:
    script = 'mkdir -p "$ANYGPU_OUTPUT_DIR" && echo weights > "$ANYGPU_OUTPUT_DIR/model.pt"'
    job_id = server.submit(command=["sh", "-c", script], name="precious")
    assert server.wait_ended(job_id)["artifacts"] == 1
    return job_id


def output_of(server: Server, job_id: str) -> bytes:
    (made,) = server.ask("GET", f"/api/v1/training/{job_id}/artifacts").json["artifacts"]
    return server.ask("GET", made["urls"][0].removeprefix(server.url), token=None).data


def test_no_file_is_removed_after_the_database_was_lost(new_server: NewServer, tmp_path: Path) -> None:
    server = new_server()
    job_id = job_with_an_output(server)
    assert server.ask("GET", "/readyz").json["warnings"] == []
    server.stop()
    backup = tmp_path / "backup"
    backup.mkdir()
    for name in DATABASE_FILES:
        if (server.state / name).exists():
            shutil.move(server.state / name, backup / name)
    make_old(server)
    before = stored_files(server)

    server.start()
    assert "stored files are not removed" in server.error_log
    (warning,) = server.ask("GET", "/readyz").json["warnings"]
    assert warning.startswith("The stored files belong to another database")
    assert (
        "warn  server    The stored files belong to another database"
        in run_cli(server, tmp_path, "doctor").stdout
    )
    server.wait_ended(server.submit(command=["true"], name="new"))
    for query in ("", "?force=true"):
        report = gc(server, query)
        assert (report["files"], report["refused"]) == (0, warning)
    refused = run_cli(server, tmp_path, "gc")
    assert refused.returncode == 1
    assert "restore it from a backup" in refused.stdout
    assert before <= stored_files(server)
    server.stop()

    for name in DATABASE_FILES:
        (server.state / name).unlink(missing_ok=True)
        if (backup / name).exists():
            shutil.move(backup / name, server.state / name)
    server.start()
    assert server.ask("GET", "/readyz").json["warnings"] == []
    assert output_of(server, job_id) == b"weights\n"
    assert gc(server)["refused"] is None
    assert output_of(server, job_id) == b"weights\n"


def test_files_removed_for_a_wrong_database_come_back_with_the_right_one(
    new_server: NewServer, tmp_path: Path
) -> None:
    server = new_server()
    job_id = job_with_an_output(server)
    server.stop()
    for name in DATABASE_FILES:
        if (server.state / name).exists():
            shutil.copy(server.state / name, tmp_path / name)
            (server.state / name).unlink()
    make_old(server)
    server.start()
    report = gc(server, "?adopt=true&force=true")  # what an operator may do by mistake
    assert report["files"] > 0
    assert all(name.startswith(("trash/", "store-id")) for name in stored_files(server))
    server.stop()
    for name in DATABASE_FILES:
        (server.state / name).unlink(missing_ok=True)
        if (tmp_path / name).exists():
            shutil.copy(tmp_path / name, server.state / name)
    server.start()
    assert gc(server)["refused"]  # the files belong to the other database now
    assert gc(server, "?adopt=true")["restored_files"] == report["files"]
    assert output_of(server, job_id) == b"weights\n"
