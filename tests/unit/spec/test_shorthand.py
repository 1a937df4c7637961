"""Short forms of spec fields."""

from typing import Any

import pytest

from anygpu.spec import from_mapping


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
