from pathlib import Path

import pytest
from tests.unit.cli.builders import parse_run

from anygpu.cli.jobs.job_file import (
    build_job_request,
    check_requirements_file,
    find_script,
    with_file_positions,
    with_relative_script,
)
from anygpu.cli.jobs.run import run_command
from anygpu.errors import InvalidSpec, NotFound, Problem
from anygpu.spec.documents import Document


def test_a_requirements_file_is_a_path_and_requirements_are_a_list() -> None:
    assert parse_run("-r", "requirements.txt", "train.py")["requirements"] == "requirements.txt"
    assert parse_run("-r", "numpy==2", "-r", "torch", "train.py")["requirements"] == ["numpy==2", "torch"]


def test_options_after_a_job_file_override_it(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("script: train.py\nlimits: {max_cost: 5}\n")
    spec = parse_run(str(path), "--max-cost", "10", "--name", "x")
    assert (spec["limits"], spec["name"]) == ({"max_cost": "10"}, "x")
    assert spec["workdir"] == {"path": str(tmp_path)}


def test_the_servers_problems_point_at_the_line_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("script: train.py\nresources:\n  gpus: 2\n")
    context = run_command.make_context("run", [str(path)])
    flags = {
        key: value
        for key, value in context.params.items()
        if key not in ("target", "as_json", "context_name")
    }
    document = build_job_request((str(path),), flags, is_command=False).document
    error = with_file_positions(InvalidSpec([Problem("resources.gpus", 2, "unknown key")]), document)
    assert str(error) == f"{path}:3 resources.gpus: unknown key"


def test_an_unknown_target_explains_how_to_run_a_command() -> None:
    with pytest.raises(NotFound, match="anygpu run -- nvidia-smi"):
        parse_run("nvidia-smi")


def test_a_script_is_searched_next_to_its_job_file(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text("script: train.py\n")
    with pytest.raises(NotFound, match=r"There is no script 'train\.py'"):
        find_script(parse_run(str(job)))
    (tmp_path / "train.py").write_text("")
    assert find_script(parse_run(str(job))) == tmp_path / "train.py"
    assert find_script({"command": ["make"]}) is None


def test_the_script_path_is_relative_to_the_uploaded_directory(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "train.py").write_text("")
    (tmp_path / "job.yaml").write_text("script: deep/train.py\n")
    elsewhere, root = with_relative_script(
        Document({"script": str(tmp_path / "deep" / "train.py")}, "command line")
    )
    assert (elsewhere.data["script"], root) == ("train.py", tmp_path / "deep")
    filed, root = with_relative_script(Document(parse_run(str(tmp_path / "job.yaml")), "job.yaml"))
    assert (filed.data["script"], root) == ("deep/train.py", tmp_path)


def test_a_directory_is_rejected_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"is a directory\. Name a script or a job file in it"):
        parse_run(str(tmp_path))


def test_a_dataset_next_to_the_job_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("trainer: tabular\ndataset: birds.csv\nconfig: {target: species}\n")
    assert parse_run(str(tmp_path / "job.yaml"))["dataset"] == "birds.csv"
    (tmp_path / "birds.csv").write_text("mass,species\n")
    assert parse_run(str(tmp_path / "job.yaml"))["dataset"] == {"path": str(tmp_path / "birds.csv")}
    assert parse_run(str(tmp_path / "job.yaml"), "--dataset", "fish.csv")["dataset"] == "fish.csv"


def test_a_missing_job_file_is_reported() -> None:
    with pytest.raises(NotFound, match="no job file"):
        parse_run("nothing.yaml")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["src/train.py"], "train"),
        (["--", "./run me.sh"], "run-me"),
        (["-n", "x", "train.py"], "x"),
        (["last.py"], None),
    ],
)
def test_an_unnamed_job_is_named_after_its_script_or_command(words: list[str], name: str | None) -> None:
    assert parse_run(*words).get("name") == name


def test_a_missing_requirements_file_is_reported_before_submission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    with pytest.raises(NotFound, match=r"requirements file 'needs\.txt'"):
        check_requirements_file(parse_run("-r", "needs.txt", "train.py"))
    (tmp_path / "needs.txt").write_text("numpy")
    check_requirements_file(parse_run("-r", "needs.txt", "train.py"))
    check_requirements_file(parse_run("-r", "numpy", "-r", "torch", "train.py"))
