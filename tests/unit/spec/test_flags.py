"""Flags make the same mapping as a file, and lie over it."""

import subprocess
import sys

import pytest

from anygpu.errors import InvalidSpec
from anygpu.spec.documents import read_yaml
from anygpu.spec.flags import FLAGS, from_flags, merge, over_document
from anygpu.spec.load import from_document, from_mapping


def test_flags_land_in_their_places() -> None:
    flags = {
        "script": "a.py",
        "gpu": "A100",
        "timeout": "6h",
        "tag": ("x", "y"),
        "env": ("A=1=2",),
        "name": None,
    }
    assert from_flags(flags) == {
        "script": "a.py",
        "resources": {"gpu": "A100"},
        "limits": {"timeout": "6h"},
        "tags": ["x", "y"],
        "env": {"A": "1=2"},
    }


def test_settings_are_read_as_yaml_words_or_json() -> None:
    sets = ["resources.gpu.count=2", "config.lr=1e-3", 'tags=["a"]', "placement.dedicated=true", "name=no"]
    assert from_flags({}, sets) == {
        "resources": {"gpu": {"count": 2}},
        "config": {"lr": 0.001},
        "tags": ["a"],
        "placement": {"dedicated": True},
        "name": "no",
    }


def test_a_place_to_run_is_a_strategy_or_backends_in_order() -> None:
    assert from_flags({"on": "cheapest"}) == {"placement": {"strategy": "cheapest"}}
    assert from_flags({"on": "lab,aws"}) == {
        "placement": {"strategy": "preferred", "allowed": ["lab", "aws"], "fallbacks": ["lab", "aws"]}
    }


def test_secrets_may_be_renamed() -> None:
    assert from_flags({"secret": ("HF_TOKEN", "TOKEN=wandb")}) == {
        "secrets": {"HF_TOKEN": "HF_TOKEN", "TOKEN": "wandb"}
    }


def test_a_flag_changes_one_part_of_a_short_form() -> None:
    merged = merge({"resources": {"gpu": "A100:8"}}, {"resources": {"gpu": {"count": 2}}})
    assert merged == {"resources": {"gpu": {"kind": "A100", "count": 2}}}


def test_a_flag_replaces_the_same_field_under_its_other_names() -> None:
    assert merge({"limits": {"timeout_s": 5}}, {"limits": {"timeout": "6h"}}) == {"limits": {"timeout": "6h"}}
    assert merge({"limits": {"deadline_s": 5}}, {"limits": {"deadline": "6h"}}) == {
        "limits": {"deadline": "6h"}
    }
    assert merge({"checkpoint": {"interval": 5}}, {"checkpoint": {"every": 9}}) == {
        "checkpoint": {"every": 9}
    }


def test_merging_leaves_both_mappings_as_they_were() -> None:
    base, over = {"env": {"A": "1"}}, {"env": {"B": "2"}}
    assert merge(base, over) == {"env": {"A": "1", "B": "2"}}
    assert (base, over) == ({"env": {"A": "1"}}, {"env": {"B": "2"}})


def test_a_problem_in_a_flag_does_not_point_at_a_line_of_the_file() -> None:
    document = read_yaml("script: a.py\nlimits:\n  timeout: 6h\n  max_retries: -1\n", "job.yaml")
    with pytest.raises(InvalidSpec) as caught:
        from_document(over_document(document, from_flags({"timeout": "soon"})))
    lines = {problem.place: problem.line for problem in caught.value.problems}
    assert lines == {"limits.timeout": 2, "limits.max_retries": 4}


@pytest.mark.parametrize(
    ("flags", "sets", "said"),
    [
        ({"gpuu": "A100"}, [], "is not an option of a job; did you mean 'gpu'?"),
        ({"env": ("A",)}, [], "'A' is not a pair of key and value; write KEY=VALUE"),
        ({}, ["limits.timeout"], "does not set a field of the job"),
        ({}, ["a..b=1"], "does not set a field of the job"),
        ({}, ["a." * 1000 + "b=1"], "does not set a field of the job"),
    ],
)
def test_a_wrong_flag_is_an_invalid_spec(flags: dict[str, object], sets: list[str], said: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        from_flags(flags, sets)
    assert said in str(caught.value)


def test_a_setting_that_names_no_field_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidSpec, match=r"limits\.timout: unknown key; did you mean 'timeout'"):
        from_mapping(from_flags({"script": "a"}, ["limits.timout=6h"]))


@pytest.mark.parametrize("flag", sorted(FLAGS))
def test_every_flag_sets_a_place_that_exists(flag: str) -> None:
    value = ("a=b",) if flag in ("env", "config", "secret") else "?"
    with pytest.raises(InvalidSpec) as caught:
        from_mapping({**from_flags({flag: value}), "no such key": 1})
    unknown = [problem.place for problem in caught.value.problems if problem.message == "unknown key"]
    assert unknown == ["no such key"]


def test_reading_files_and_flags_loads_no_models() -> None:
    code = (
        "import sys; import anygpu.spec; from anygpu.spec.flags import from_flags, over_document;"
        "from anygpu.spec.documents import read_yaml;"
        "over_document(read_yaml('script: a'), from_flags({'gpu': 'A100'}));"
        "import anygpu.spec.workdir; print([m for m in ('pydantic', 'pathspec', 'tomllib') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
