"""Values of any type in a spec."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from anygpu.errors import InvalidSpec
from anygpu.spec import from_mapping


def test_python_values_are_taken_as_they_are_meant() -> None:
    spec = from_mapping({"script": Path("a.py"), "tags": ("x",), "limits": {"timeout": timedelta(hours=1)}})
    assert (spec.script, spec.tags, spec.limits.timeout_s) == ("a.py", ("x",), 3600.0)


def test_a_value_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidSpec, match="nested more than 40 levels"):
        from_mapping({"trainer": "a", "config": {"loop": loop}})
