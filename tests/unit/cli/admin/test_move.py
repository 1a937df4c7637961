"""Writing the new addresses to the settings file."""

import json
import tomllib
from pathlib import Path

import pytest

from anygpu.cli.admin.move import _plan_lines, write_store_settings
from anygpu.errors import AnygpuError
from anygpu.store.move.markers import TargetState
from anygpu.wiring.move import MovePlan

URL = "postgresql://a:p%22w@h/d?x=\\1"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only a comment",
        '[server]\nport = 1\n\n[backends.lab]\nkind = "ssh"\n',
        "[store]\n",
        '[store]  # where\ntrash_days = 3\ndatabase = "sqlite:///old"\n\n# next\n[server]\nport = 1',
        '[store]\ndatabase="x"\n[backends.a]\nkind = "ssh"\ndatabase = "kept"\n',
    ],
)
def test_only_the_given_values_change(tmp_path: Path, text: str) -> None:
    path = tmp_path / "new" / "config.toml"
    if text:
        path.parent.mkdir()
        path.write_text(text)
    before = tomllib.loads(text)
    values = {"database": URL, "blob_options": ["a=1"]}
    write_store_settings(path, values)
    assert tomllib.loads(path.read_text()) == {**before, "store": {**before.get("store", {}), **values}}
    assert all(line in path.read_text() for line in text.splitlines() if "#" in line)
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "text",
    [
        'store = { database = "sqlite:///x" }\n',
        'store.database = "sqlite:///x"\n',
        '[ store ]\ndatabase = "sqlite:///x"\n',
        '[store]\nblob_options = [\n  "region=a",\n]\n',
    ],
)
def test_a_file_that_cannot_be_edited_is_left_as_it_is_and_the_values_are_named(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(AnygpuError) as refused:
        write_store_settings(path, {"database": URL, "blob_options": ["region=b"]})
    assert f"database = {json.dumps(URL)}" in refused.value.hint
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        (TargetState.EMPTY, "is empty"),
        (TargetState.UNFINISHED, "has an unfinished copy; the move continues it"),
        (TargetState.FINISHED, "has a complete copy"),
    ],
)
def test_a_plan_says_what_the_target_has_and_what_is_copied(state: TargetState, shown: str) -> None:
    rows = {"jobs": 2, "leases": 1, "secrets": 0}
    plan = MovePlan(source="a.db", target="postgresql://h/d", state=state, rows=rows, live_jobs=0, server="")
    assert _plan_lines(plan) == [
        f"Move a.db to postgresql://h/d, which {shown}:",
        "  jobs: 2 rows",
        "  leases: 1 row",
        "Nothing was changed (dry run).",
    ]
