"""An attempt becomes a submission of a Ray job."""

import json

from tests.unit.backends.ray.dashboard import (
    LISTED,
    OPTIONS,
    launch,
)

from anygpu.backends.ray.nodes import parse_nodes
from anygpu.backends.ray.submission import build_package, build_submission
from anygpu.spec.sections import Resources


def test_a_node_that_has_its_kind_only_as_a_label_is_selected_by_the_label() -> None:
    total = {name: amount for name, amount in LISTED["resources_total"].items() if ":" not in name}  # type: ignore[attr-defined]
    [node] = parse_nodes(
        [{**LISTED, "resources_total": total, "labels": {"ray.io/accelerator-type": "H100"}}], {}
    )
    body = build_submission(launch(), node, options=OPTIONS, package="gcs://p.zip", owner="o")
    assert body["entrypoint_label_selector"] == {"ray.io/accelerator-type": "H100"}
    assert "entrypoint_resources" not in body


def test_the_submission_reserves_what_the_job_needs() -> None:
    [node] = parse_nodes([LISTED], {})
    need = Resources.model_validate({"gpu": "T4:2", "cpus": 3, "memory": "2 GiB"})
    body = build_submission(launch(resources=need), node, options=OPTIONS, package="gcs://p.zip", owner="o")
    start = json.loads(body["runtime_env"]["env_vars"].pop("ANYGPU_START"))
    assert body == {
        "submission_id": "anygpu-1",
        "entrypoint": "exec sh start.sh",
        "entrypoint_num_cpus": 3,
        "entrypoint_num_gpus": 2,
        "entrypoint_memory": 2**31,
        "entrypoint_resources": {"accelerator_type:T4": 0.001},
        "metadata": {"anygpu_owner": "o", "anygpu_job": "job", "anygpu_attempt": "1"},
        "runtime_env": {"working_dir": "gcs://p.zip", "env_vars": {}},
    }
    assert (start["gpus"], start["ticket"]["ticket"], start["ticket"]["sigterm_notice_s"]) == (
        2,
        "secret-ticket",
        3,
    )


def test_a_package_has_a_name_that_follows_from_its_content() -> None:
    assert build_package(b"agent").name == build_package(b"agent").name
    assert (
        len({build_package(b"agent").name, build_package(b"other").name, build_package(b"agent", "p").name})
        == 3
    )
