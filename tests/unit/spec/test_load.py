"""A job described in YAML, TOML, JSON or Python: what it becomes, and what is said when it is wrong."""

import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

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


def test_every_field_arrives_in_its_unit() -> None:
    spec = from_yaml(FULL)
    assert (spec.kind, spec.args, spec.env) == ("script", ("--lr", "0.1"), {"DEBUG": "true", "WORKERS": "4"})
    assert spec.secrets == {"HF_TOKEN": "HF_TOKEN"}
    assert spec.workdir is not None
    assert spec.workdir.ignore == ("data/",)
    assert spec.dataset is not None
    assert (spec.dataset.kind, spec.dataset.version) == ("name", "3")
    assert (spec.checkpoint.every_s, spec.checkpoint.resume_args) == (300.0, ("--resume", "{path}"))
    assert spec.resources.gpu is not None
    assert (spec.resources.gpu.kind, spec.resources.gpu.count) == (
        "A100",
        8,
    )
    assert (spec.resources.memory_gib, spec.resources.disk_gib) == (64.0, 100.0)
    assert (spec.limits.timeout_s, spec.limits.max_cost_microusd) == (21600.0, 10_000_000)
    assert (spec.placement.interruptible, spec.placement.hold_on_failure_s) == ("yes", 1800.0)
    assert [notice.on for notice in spec.notify] == [("completed", "failed", "cancelled"), ("failed",)]
    assert (spec.resume_job, spec.resume_step) == ("0198f", 400)


def test_a_dump_loads_to_the_same_spec() -> None:
    spec = from_yaml(FULL)
    assert from_mapping(spec.model_dump()) == spec
    assert from_mapping(spec.model_dump(mode="json")) == spec
    assert JobSpec.model_validate_json(spec.model_dump_json()) == spec


def test_toml_and_yaml_describe_the_same_job() -> None:
    toml = 'script = "a.py"\n[limits]\ntimeout = "6h"\ndeadline = 2030-01-01T00:00:00Z\n[[notify]]\nto = "a@b.org"\n'
    yaml = "{script: a.py, limits: {timeout: 6h, deadline: 2030-01-01T00:00:00Z}, notify: a@b.org}"
    assert from_toml(toml) == from_yaml(yaml)


def test_a_spec_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        from_yaml("script: a.py").name = "other"  # type: ignore[misc]


def test_an_unknown_key_names_the_nearest_valid_one_and_its_line() -> None:
    found = problems("script: train.py\n\nresources:\n  gpus: 2\n")
    assert found == ["job.yaml:4 resources.gpus: unknown key; did you mean 'gpu'?"]


def test_a_key_in_the_wrong_section_is_told_where_it_belongs() -> None:
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
    found = problems(
        "command: x\nscript: ../a.py\nnam: b\nlimits: {timeout: 6x, max_retries: true}\ntags: 5\n"
    )
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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: x", "give exactly one of script, command, trainer and code"),
        ("{script: a, code: b}", "not script and code"),
        ("{command: a, args: [b]}", "are only for a script"),
        ("{script: a, config: {b: 1}}", "is only for a trainer"),
        ("{script: a, image: b, requirements: [c]}", "cannot be combined with image"),
        ("script: ../a.py", "leads outside"),
        ("script: /a.py", "absolute"),
        (r"script: C:\a.py", "absolute"),
        (r"script: a\..\..\b.py", "leads outside"),
        ("script: -c", "starts with '-'"),
        ("{script: a, outputs: [/etc/*]}", "absolute"),
        ("{script: a, checkpoint: {paths: ../*}}", "leads outside"),
        ("{script: a, workdir: {subdir: ../b}}", "leads outside"),
        ("{script: a, name: 'a b'}", "is not a name"),
        ("{script: a, name: last}", "is reserved"),
        ("{script: a, env: {1A: b}}", "is not a name for an environment variable"),
        ("{script: a, env: {ANYGPU_JOB_ID: b}}", "is reserved"),
        ("{script: a, python: 3.10}", "quotation marks"),
        ("{script: a, requirements: numpy==2}", "put requirements in a list"),
        ("{script: a, dataset: 'ftp://x'}", "is not a supported URL"),
        ("{script: a, dataset: {path: a, url: 'https://b'}}", "exactly one of path, url and name"),
        ("{script: a, resources: {gpu: 'A100:8:9:1'}}", "is not a GPU"),
        ("{script: a, resources: {gpu: -1}}", "greater than or equal to 0"),
        ("{script: a, placement: {allowed: [x], forbidden: [x]}}", "both allowed and forbidden"),
        ("{script: a, limits: {timeout: 1h, timeout_s: 5}}", "leave out 'timeout_s'"),
        ("{script: a, limits: {deadline_s: 5, deadline_at: 2030-01-01T00:00:00Z}}", "leave out 'deadline_s'"),
        ("{script: a, limits: {max_cost_microusd: 1.5}}", "integer"),
        ("{script: a, notify: bob}", "is not an address"),
        ("{script: a, resume_from: 'a b'}", "is not a job to resume"),
        ("{script: a, tags: [" + "x," * 51 + "]}", "at most 50 items"),
        ("{script: a, name: " + "x" * 101 + "}", "longer than 100"),
        ('{script: "a\\0b"}', "NUL"),
        ("{trainer: a, config: {lr: .nan}}", "finite"),
        ("{command: []}", "is not a command"),
        ("{command: [a, [b]]}", "every item of the list"),
        ("{script: a, requirements: [" + "x," * 1001 + "]}", "more than 1000"),
        ("{script: a, args: '" + "x " * 40_000 + "'}", "give a list of words"),
        ("{trainer: a, config: {n: 99999999999999999999}}", "64 bits"),
    ],
)
def test_a_wrong_spec_says_what_is_wrong(text: str, said: str) -> None:
    assert said in "\n".join(problems(text))


@pytest.mark.parametrize(
    ("short", "expected"),
    [
        (2, {"count": 2}),
        ("2", {"count": 2}),
        ("A100", {"kind": "A100"}),
        ("A100:8", {"kind": "A100", "count": 8}),
        ("24GiB", {"memory_gib": 24.0}),
        ("L4:2:24GiB", {"kind": "L4", "count": 2, "memory_gib": 24.0}),
        (0, {"count": 0}),
    ],
)
def test_a_gpu_may_be_written_short(short: Any, expected: dict[str, Any]) -> None:
    spec = from_mapping({"script": "a.py", "resources": {"gpu": short}})
    assert spec.resources.gpu is not None
    assert spec.resources.gpu.model_dump(exclude_defaults=True) == {
        k: v for k, v in expected.items() if v != 1
    }


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("data/train", "path"),
        ("/mnt/data", "path"),
        ("https://example.org/a.zip", "url"),
        ("s3://b/k", "url"),
        ("a@1", "name"),
    ],
)
def test_the_kind_of_a_dataset_is_inferred(text: str, kind: str) -> None:
    dataset = from_mapping({"script": "a.py", "dataset": text}).dataset
    assert dataset is not None
    assert dataset.kind == kind


def test_an_empty_value_means_the_default() -> None:
    assert from_yaml("script: a.py\nresources:\nlimits:\n  max_retries:\n") == from_yaml("script: a.py")


def test_python_values_are_taken_as_they_are_meant() -> None:
    spec = from_mapping({"script": Path("a.py"), "tags": ("x",), "limits": {"timeout": timedelta(hours=1)}})
    assert (spec.script, spec.tags, spec.limits.timeout_s) == ("a.py", ("x",), 3600.0)


def test_a_deadline_from_submission_is_counted_from_there() -> None:
    submitted = datetime(2030, 1, 1, tzinfo=UTC)
    limits = from_yaml("{script: a.py, limits: {deadline: 6h}}").limits
    assert limits.deadline_from(submitted) == submitted + timedelta(hours=6)
    assert from_yaml("script: a.py").limits.deadline_from(submitted) is None


def test_the_archive_is_set_on_a_copy() -> None:
    spec = from_yaml("{script: a.py, workdir: .}")
    uploaded = spec.with_archive("0" * 64)
    assert uploaded.workdir is not None
    assert (uploaded.workdir.path, uploaded.workdir.archive) == (
        ".",
        "0" * 64,
    )
    assert spec.workdir is not None
    assert spec.workdir.archive is None


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
        ("a.json", b'{"script": "a", "script": "b"}', "given twice"),
        ("a.json", b"[" * 100_000, "is not JSON"),
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


def test_a_value_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidSpec, match="nested more than 40 levels"):
        from_mapping({"trainer": "a", "config": {"loop": loop}})


def test_an_invalid_spec_survives_pickling() -> None:
    with pytest.raises(InvalidSpec) as caught:
        from_mapping({"scrip": "a"})
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
