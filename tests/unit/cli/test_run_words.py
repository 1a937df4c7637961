"""Which words of `anygpu run` are ours, and which are the script's."""

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from anygpu.cli.jobfile import asked, blamed, require_requirements, script_here, settled
from anygpu.cli.run import COMMAND, command
from anygpu.errors import InvalidSpec, NotFound, Problem
from anygpu.spec.read import Document


def parsed(*words: str) -> dict[str, Any]:
    context = command.make_context("run", list(words))
    wanted = {
        key: value
        for key, value in context.params.items()
        if key not in ("target", "as_json", "context_name")
    }
    return asked(context.params["target"], wanted, is_command=bool(context.meta.get(COMMAND))).document.data


def test_everything_after_the_script_is_the_scripts() -> None:
    spec = parsed("--name", "x", "train.py", "--epochs", "3", "--name", "y", "-d")
    assert spec == {"script": "train.py", "args": ["--epochs", "3", "--name", "y", "-d"], "name": "x"}


def test_where_and_how_much_may_also_follow_the_script() -> None:
    spec = parsed("train.py", "--epochs", "3", "--on", "cheapest", "--max-cost=10", "--deadline", "6h")
    assert spec["args"] == ["--epochs", "3"]
    assert spec["placement"] == {"strategy": "cheapest"}
    assert spec["limits"] == {"max_cost": "10", "deadline": "6h"}


def test_two_dashes_keep_everything_the_scripts() -> None:
    assert parsed("train.py", "--lr", "1", "--", "--on", "cheapest")["args"] == [
        "--lr",
        "1",
        "--on",
        "cheapest",
    ]


def test_two_dashes_first_mean_any_command() -> None:
    assert parsed("--gpu", "1", "--", "make", "-j2", "--on") == {
        "name": "make",
        "command": ["make", "-j2", "--on"],
        "resources": {"gpu": "1"},
    }


def test_a_flag_that_lacks_its_value_is_ours_to_refuse() -> None:
    with pytest.raises(click.BadOptionUsage):
        parsed("train.py", "--on")


def test_every_flag_lands_at_its_place() -> None:
    spec = parsed(
        *(
            "--cpus",
            "2",
            "--memory",
            "4GiB",
            "--env",
            "A=1",
            "--secret",
            "T",
            "--tag",
            "t",
            "--output",
            "o/**",
        ),
        *("--checkpoint", "c/*", "--resume-arg", "--resume", "--resume-arg", "{path}", "--timeout", "1h"),
        *("--max-retries", "0", "--priority", "5", "--key", "k", "--set", "checkpoint.keep=9", "train.py"),
    )
    assert spec["resources"] == {"cpus": "2", "memory": "4GiB"}
    assert (spec["env"], spec["secrets"], spec["tags"], spec["outputs"]) == (
        {"A": "1"},
        {"T": "T"},
        ["t"],
        ["o/**"],
    )
    assert spec["checkpoint"] == {"paths": ["c/*"], "resume_args": ["--resume", "{path}"], "keep": 9}
    assert (spec["limits"], spec["priority"]) == ({"timeout": "1h", "max_retries": "0"}, "5")
    assert spec["idempotency_key"] == "k"


def test_a_requirements_file_is_a_path_and_requirements_are_a_list() -> None:
    assert parsed("-r", "requirements.txt", "train.py")["requirements"] == "requirements.txt"
    assert parsed("-r", "numpy==2", "-r", "torch", "train.py")["requirements"] == ["numpy==2", "torch"]


def test_options_after_a_job_file_win_over_it(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("script: train.py\nlimits: {max_cost: 5}\n")
    spec = parsed(str(path), "--max-cost", "10", "--name", "x")
    assert (spec["limits"], spec["name"]) == ({"max_cost": "10"}, "x")
    assert spec["workdir"] == {"path": str(tmp_path)}


def test_the_servers_problems_point_at_the_line_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("script: train.py\nresources:\n  gpus: 2\n")
    context = command.make_context("run", [str(path)])
    flags = {
        key: value
        for key, value in context.params.items()
        if key not in ("target", "as_json", "context_name")
    }
    document = asked((str(path),), flags, is_command=False).document
    error = blamed(InvalidSpec([Problem("resources.gpus", 2, "unknown key")]), document)
    assert str(error) == f"{path}:3 resources.gpus: unknown key"


def test_a_word_that_is_neither_script_nor_file_tells_how_to_run_it() -> None:
    with pytest.raises(NotFound, match="anygpu run -- nvidia-smi"):
        parsed("nvidia-smi")


def test_a_script_is_looked_for_where_its_job_file_lies(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text("script: train.py\n")
    with pytest.raises(NotFound, match=r"There is no script 'train\.py'"):
        script_here(parsed(str(job)))
    (tmp_path / "train.py").write_text("")
    assert script_here(parsed(str(job))) == tmp_path / "train.py"
    assert script_here({"command": ["make"]}) is None


def test_a_script_is_named_from_the_directory_that_travels(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "train.py").write_text("")
    (tmp_path / "job.yaml").write_text("script: deep/train.py\n")
    elsewhere, root = settled(Document({"script": str(tmp_path / "deep" / "train.py")}, "command line"))
    assert (elsewhere.data["script"], root) == ("train.py", tmp_path / "deep")
    filed, root = settled(Document(parsed(str(tmp_path / "job.yaml")), "job.yaml"))
    assert (filed.data["script"], root) == ("deep/train.py", tmp_path)


def test_a_directory_is_told_from_a_command(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"is a directory\. Name the script or the job file in it"):
        parsed(str(tmp_path))


def test_data_beside_a_job_file_is_found_from_anywhere(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("trainer: tabular\ndataset: birds.csv\nconfig: {target: species}\n")
    assert parsed(str(tmp_path / "job.yaml"))["dataset"] == "birds.csv"
    (tmp_path / "birds.csv").write_text("mass,species\n")
    assert parsed(str(tmp_path / "job.yaml"))["dataset"] == {"path": str(tmp_path / "birds.csv")}
    assert parsed(str(tmp_path / "job.yaml"), "--dataset", "fish.csv")["dataset"] == "fish.csv"


def test_a_missing_job_file_is_said() -> None:
    with pytest.raises(NotFound, match="no job file"):
        parsed("nothing.yaml")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["src/train.py"], "train"),
        (["--", "./run me.sh"], "run-me"),
        (["-n", "x", "train.py"], "x"),
        (["last.py"], None),
    ],
)
def test_a_job_without_a_name_is_called_like_what_it_runs(words: list[str], name: str | None) -> None:
    assert parsed(*words).get("name") == name


def test_help_is_given_to_who_asks_for_it() -> None:
    asked = CliRunner().invoke(command, ["--help"])
    assert (asked.exit_code, "Run a script, a command or a job file" in asked.output) == (0, True)


def test_a_requirements_file_that_is_not_here_is_said_before_anything_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    with pytest.raises(NotFound, match=r"requirements file 'needs\.txt'"):
        require_requirements(parsed("-r", "needs.txt", "train.py"))
    (tmp_path / "needs.txt").write_text("numpy")
    require_requirements(parsed("-r", "needs.txt", "train.py"))
    require_requirements(parsed("-r", "numpy", "-r", "torch", "train.py"))


def test_an_option_without_its_value_names_the_help_of_its_command() -> None:
    with pytest.raises(click.UsageError) as caught:
        parsed("train.py", "--max-cost")
    assert caught.value.ctx is not None
    assert caught.value.ctx.command is command
