"""A spec becomes the mapping that a person would write, unless that would mean something else."""

from typing import Any

import pytest

from anygpu.spec.load import from_mapping
from anygpu.spec.render.short_form import short_form


def short(**fields: Any) -> dict[str, Any]:
    mapping = short_form(from_mapping({"script": "train.py", "name": "digits", **fields}))
    return {name: value for name, value in mapping.items() if name not in ("script", "name")}


@pytest.mark.parametrize(
    ("fields", "written"),
    [
        ({}, {}),
        ({"limits": {"timeout_s": 21_600}}, {"limits": {"timeout": "6h"}}),
        ({"limits": {"timeout_s": 5_400}}, {"limits": {"timeout": "1h30m"}}),
        ({"limits": {"timeout_s": 90_061}}, {"limits": {"timeout": 90_061}}),
        ({"limits": {"max_cost_microusd": 12_500_000}}, {"limits": {"max_cost": 12.5}}),
        ({"limits": {"max_cost_microusd": 12_000_000}}, {"limits": {"max_cost": 12}}),
        ({"resources": {"gpu": {"kind": "A100", "count": 8}}}, {"resources": {"gpu": "A100:8"}}),
        ({"resources": {"gpu": {"count": 2}}}, {"resources": {"gpu": 2}}),
        ({"resources": {"memory_gib": 64.0, "cpus": 4.0}}, {"resources": {"memory": "64GiB", "cpus": 4}}),
        ({"dataset": {"name": "imagenet", "version": "3"}}, {"dataset": "imagenet@3"}),
        ({"dataset": {"path": "/data"}}, {"dataset": "/data"}),
        ({"workdir": {"path": "/home/ada"}}, {"workdir": "/home/ada"}),
        ({"secrets": {"HF_TOKEN": "HF_TOKEN"}}, {"secrets": ["HF_TOKEN"]}),
        ({"secrets": {"HF_TOKEN": "other"}}, {"secrets": {"HF_TOKEN": "other"}}),
    ],
)
def test_values_are_written_in_the_units_that_people_use(
    fields: dict[str, Any], written: dict[str, Any]
) -> None:
    assert short(**fields) == written


def test_a_job_without_a_name_says_so_because_commands_would_name_it() -> None:
    assert short_form(from_mapping({"script": "train.py"})) == {"script": "train.py", "name": None}
    assert "name" not in short_form(from_mapping({"code": "print(1)"}))
