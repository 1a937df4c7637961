"""Numbers and names as scripts print them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.parametrize("printed", ["nan", "NaN", "-inf", "inf", "Infinity"])
def test_nan_and_infinity_are_values(printed: str, points_of: Callable[..., Any]) -> None:
    ((name, step, value),) = points_of(f"Epoch 3/10 loss={printed}\n")
    assert (name, step) == ("loss", 3)
    assert math.isnan(value) or value == float(printed)


def test_every_parser_reads_nan(points_of: Callable[..., Any]) -> None:
    lines = [
        '{"type":"progress","data":{"step":1,"metrics":{"loss":NaN}}}',
        "{'loss': 'nan', 'epoch': '1'}",
        "[1]\ttrain-rmse:nan",
        "50%|█| 1/2 [00:01<00:01, 9.9it/s, loss=nan]",
        "iter 1: loss nan, time 3ms",
        "loss: nan",
    ]
    assert [[math.isnan(value) for _, _, value in points_of(line)] for line in lines] == [[True]] * len(lines)
