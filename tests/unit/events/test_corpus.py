"""Journals written by earlier versions still fold."""

import json
from pathlib import Path

import pytest

from anygpu.events.codec import decode
from anygpu.events.fold import Recorded, fold
from anygpu.events.view import JobView

CORPUS = sorted(Path(__file__).with_name("corpus").glob("*.jsonl"))


def views(path: Path) -> dict[str, JobView]:
    known: dict[str, JobView] = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        event = decode(row["type"], row["version"], json.dumps(row["data"]))
        recorded = Recorded(
            organisation="local",
            project="default",
            position=row["position"],
            job_id=row["job_id"],
            at_ms=row["at_ms"],
            event=event,
        )
        view = fold([recorded], known.get(row["job_id"]))
        assert view is not None
        known[row["job_id"]] = view
    return known


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_an_old_journal_folds_to_what_it_said_then(path: Path) -> None:
    expected = json.loads(path.with_suffix(".expected.json").read_text())
    found = {
        job_id: {"status": v.status, "attempts": len(v.attempts), "work_lost_s": v.work_lost_s}
        for job_id, v in views(path).items()
    }
    assert found == expected


def test_the_corpus_is_not_empty() -> None:
    assert CORPUS
