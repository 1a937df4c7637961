"""Which files of a working directory are packed."""

from pathlib import Path

from tests.unit.spec.conftest import Make

from anygpu.spec.workdir import walk


def names(root: Path, *ignore: str) -> list[str]:
    return sorted(entry.name for entry in walk(root, ignore))


def test_git_caches_and_environments_are_ignored_by_default(make: Make) -> None:
    root = make(
        {
            ".git/HEAD": "",
            "a.py": "",
            "__pycache__/a.pyc": "",
            ".venv/x": "",
            "node_modules/y": "",
            "b.pyc": "",
        }
    )
    assert names(root) == ["a.py"]


def test_ignore_files_hold_below_their_own_directory(make: Make) -> None:
    root = make(
        {
            ".gitignore": "*.log\n/data/\n!keep.log\n",
            "a.log": "",
            "keep.log": "",
            "data/x": "",
            "sub/data/y": "",
            "sub/.gitignore": "*.txt\n!important.txt\n",
            "sub/a.txt": "",
            "sub/important.txt": "",
            "a.txt": "",
        }
    )
    assert names(root) == [
        ".gitignore",
        "a.txt",
        "keep.log",
        "sub/.gitignore",
        "sub/data/y",
        "sub/important.txt",
    ]


def test_our_own_ignore_file_wins_over_git_and_the_spec_over_both(make: Make) -> None:
    root = make(
        {
            ".gitignore": "*.pt\n",
            ".anygpuignore": "!model.pt\nnotes/\n",
            "model.pt": "",
            "x.pt": "",
            "notes/a": "",
        }
    )
    assert names(root) == [".anygpuignore", ".gitignore", "model.pt"]
    assert names(root, "!x.pt", ".*ignore") == ["model.pt", "x.pt"]


def test_a_default_can_be_taken_back(make: Make) -> None:
    assert names(make({"venv/a": "", "b.pyc": ""}), "!venv/", "!b.pyc") == ["b.pyc", "venv/a"]


def test_the_rules_of_the_repository_around_it_hold_too(make: Make) -> None:
    root = make(
        {
            ".git/HEAD": "",
            ".gitignore": "*.ckpt\nproj/data/\n",
            "proj/a.py": "",
            "proj/b.ckpt": "",
            "proj/data/c": "",
        }
    )
    assert names(root / "proj") == ["a.py"]
