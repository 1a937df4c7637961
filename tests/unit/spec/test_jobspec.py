"""The fields of a job spec: values, units and conflicts."""

from typing import Any

import pytest

from anygpu.errors import InvalidSpec
from anygpu.spec import from_yaml
from anygpu.spec.load import from_mapping

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


def test_a_spec_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        from_yaml("script: a.py").name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: x", "give exactly one of script, command, trainer and code"),
        ("{script: a, code: b}", "not script and code"),
        ("{command: a, args: [b]}", "are allowed only together with 'script'"),
        ("{script: a, config: {b: 1}}", "is allowed only together with 'trainer'"),
        ("{script: a, image: b, requirements: [c]}", "cannot be combined with 'image'"),
        ("script: -c", "starts with '-'"),
        ("{script: a, outputs: [/etc/*]}", "absolute"),
        ("{script: a, checkpoint: {paths: ../*}}", "leads outside"),
        ("{script: a, workdir: {subdir: ../b}}", "leads outside"),
        ("{script: a, name: 'a b'}", "is not a valid job name"),
        ("{script: a, name: last}", "cannot be the name of a job"),
        ("{script: a, env: {1A: b}}", "is not a valid name of an environment variable"),
        ("{script: a, env: {ANYGPU_JOB_ID: b}}", "anygpu itself sets"),
        ("{script: a, python: 3.10}", "quotation marks"),
        ("{script: a, requirements: numpy==2}", "put requirements in a list"),
        ("{script: a, dataset: 'ftp://x'}", "is not a supported URL"),
        ("{script: a, dataset: {path: a, url: 'https://b'}}", "exactly one of path, url and name"),
        ("{script: a, resources: {gpu: 'A100:8:9:1'}}", "is not a GPU"),
        ("{script: a, resources: {gpu: -1}}", "greater than or equal to 0"),
        ("{script: a, placement: {allowed: [x], forbidden: [x]}}", "both allowed and forbidden"),
        ("{script: a, limits: {timeout: 1h, timeout_s: 5}}", "is another name of 'timeout_s'"),
        (
            "{script: a, limits: {deadline_s: 5, deadline_at: 2030-01-01T00:00:00Z}}",
            "same deadline as 'deadline_s'",
        ),
        ("{script: a, limits: {max_cost_microusd: 1.5}}", "integer"),
        ("{script: a, notify: bob}", "is not an address"),
        ("{script: a, resume_from: 'a b'}", "is not a job to resume"),
        ("{script: a, tags: [" + "x," * 51 + "]}", "at most 50 items"),
        ("{script: a, name: " + "x" * 101 + "}", "at most 100 characters"),
        ('{script: "a\\0b"}', "NUL"),
        ("{trainer: a, config: {lr: .nan}}", "finite"),
        ("{command: []}", "is not a command"),
        ("{command: [a, [b]]}", "every item of the list"),
        ("{script: a, requirements: [" + "x," * 1001 + "]}", "more than 1000"),
        ("{script: a, args: '" + "x " * 40_000 + "'}", "write the words as a list"),
        ("{trainer: a, config: {n: 99999999999999999999}}", "64 bits"),
    ],
)
def test_a_wrong_spec_says_what_is_wrong(text: str, said: str) -> None:
    assert said in "\n".join(problems(text))


def test_an_empty_value_means_the_default() -> None:
    assert from_yaml("script: a.py\nresources:\nlimits:\n  max_retries:\n") == from_yaml("script: a.py")


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


def test_processes_per_node_needs_a_launcher() -> None:
    with pytest.raises(InvalidSpec, match="only together with 'launcher: torchrun'"):
        from_mapping({"script": "train.py", "processes_per_node": 2})


@pytest.mark.parametrize(
    ("fields", "local", "world"),
    [
        ({}, 1, 1),
        ({"resources": {"gpu": 8, "nodes": 2}}, 1, 2),
        ({"launcher": "torchrun"}, 1, 1),
        ({"launcher": "torchrun", "resources": {"gpu": 0, "nodes": 3}}, 1, 3),
        ({"launcher": "torchrun", "resources": {"gpu": "A100:8", "nodes": 2}}, 8, 16),
        ({"launcher": "torchrun", "processes_per_node": 2, "resources": {"gpu": 8, "nodes": "4"}}, 2, 8),
    ],
)
def test_a_launcher_starts_one_process_for_each_gpu(fields: dict[str, Any], local: int, world: int) -> None:
    spec = from_mapping({"script": "train.py", **fields})
    assert (spec.local_processes, spec.world_size) == (local, world)
