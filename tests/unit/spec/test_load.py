"""A job described in YAML, TOML, JSON or Python: what it becomes, and what is said when it is wrong."""

import pickle
from pathlib import Path

import pytest

from anygpu.errors import InvalidSpec
from anygpu.spec import JobSpec, from_file, from_mapping, from_toml, from_yaml

FULL = """
name: nightly
tags: [vision, baseline]
script: train.py
args: [--lr, 0.1]
env: {DEBUG: true, WORKERS: 4}
secrets: [HF_TOKEN]
workdir: {path: ., ignore: [data/]}
setup: make prepare
requirements: [numpy, torch==2.5]
python: "3.11"
dataset: mnist@3
outputs: runs/**
checkpoint: {every: 5m, paths: [ckpt/*.pt], resume_args: "--resume {path}", keep: 2}
resume_from: 0198f@400
resources: {gpu: "A100:8", cpus: 4, memory: 64GiB, disk: 100}
limits: {timeout: 6h, max_cost: $10, deadline: 2030-01-31T18:00:00+01:00, max_retries: 1}
placement: {strategy: cheapest, allowed: [aws, lab], fallbacks: [lab], interruptible: yes, hold_on_failure: 30m}
track: {mlflow: true, wandb: my-project, tags: [a]}
notify: [me@example.org, {to: "slack:#runs", on: failed}]
priority: 5
idempotency_key: once
"""


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidSpec) as caught:
        from_yaml(text, "job.yaml")
    return [str(problem) for problem in caught.value.problems]


def test_a_dump_loads_to_the_same_spec() -> None:
    spec = from_yaml(FULL)
    assert from_mapping(spec.model_dump()) == spec
    assert from_mapping(spec.model_dump(mode="json")) == spec
    assert JobSpec.model_validate_json(spec.model_dump_json()) == spec


def test_toml_and_yaml_describe_the_same_job() -> None:
    toml = 'script = "a.py"\n[limits]\ntimeout = "6h"\ndeadline = 2030-01-01T00:00:00Z\n[[notify]]\nto = "a@b.org"\n'
    yaml = "{script: a.py, limits: {timeout: 6h, deadline: 2030-01-01T00:00:00Z}, notify: a@b.org}"
    assert from_toml(toml) == from_yaml(yaml)


def test_an_unknown_key_names_the_nearest_valid_one_and_its_line() -> None:
    found = problems("script: train.py\n\nresources:\n  gpus: 2\n")
    assert found == ["job.yaml:4 resources.gpus: unknown key; did you mean 'gpu'?"]


def test_for_a_key_in_the_wrong_section_the_right_one_is_suggested() -> None:
    assert problems("script: a.py\ntimeout: 6h\n") == [
        "job.yaml:2 timeout: unknown key; did you mean 'limits.timeout'?"
    ]


def test_a_wrong_value_names_itself_and_the_nearest_valid_one() -> None:
    assert problems("script: a.py\nplacement:\n  strategy: cheap\n") == [
        "job.yaml:3 placement.strategy: 'cheap' is not one of queue, cheapest, fastest, preferred, balanced; "
        "did you mean 'cheapest'?"
    ]


def test_a_friendly_name_is_blamed_under_that_name() -> None:
    [found] = problems("script: a.py\nlimits: {max_cost: ten}\n")
    assert found.startswith("job.yaml:2 limits.max_cost: 'ten' is not an amount of dollars")


def test_all_problems_are_reported_in_the_order_of_the_file() -> None:
    found = problems("command: x\nscript: -a.py\nnam: b\nlimits: {timeout: 6x, max_retries: true}\ntags: 5\n")
    places = [text.split(": ")[0] for text in found]
    assert places == [
        "job.yaml",
        "job.yaml:2 script",
        "job.yaml:3 nam",
        "job.yaml:4 limits.timeout",
        "job.yaml:4 limits.max_retries",
        "job.yaml:5 tags",
    ]


def test_toml_problems_carry_lines_too() -> None:
    with pytest.raises(InvalidSpec) as caught:
        from_toml('script = "a.py"\n[resources.gpu]\nkind = "A100"\ncuont = 2\n', "job.toml")
    assert str(caught.value) == "job.toml:4 resources.gpu.cuont: unknown key; did you mean 'count'?"


def test_a_file_is_read_by_its_suffix(tmp_path: Path) -> None:
    for name, text in [
        ("a.yaml", "script: a"),
        ("b.toml", 'script = "a"'),
        ("c.json", '{\n\t"script": "a"}'),
    ]:
        (tmp_path / name).write_text(text)
        assert from_file(tmp_path / name).script == "a"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.txt", b"script: a", "is not a job file"),
        ("a.yaml", b"\xff\xfe\x00", "is not UTF-8"),
        ("missing.yaml", None, "cannot be read"),
        ("a.json", b'{"script": "a", "script": "b"}', "is there twice"),
        ("a.json", b"[" * 100_000, "is not valid JSON"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_invalid_spec(
    tmp_path: Path, name: str, content: bytes | None, said: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidSpec, match=said):
        from_file(tmp_path / name)


def test_at_most_fifty_problems_are_listed() -> None:
    with pytest.raises(InvalidSpec) as caught:
        from_mapping({"script": "a", **{f"key{number}": 1 for number in range(1000)}})
    assert len(caught.value.problems) == 50


def test_an_invalid_spec_survives_pickling() -> None:
    with pytest.raises(InvalidSpec) as caught:
        from_mapping({"scrip": "a"})
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
