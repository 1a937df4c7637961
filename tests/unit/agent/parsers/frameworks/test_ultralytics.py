"""Output of Ultralytics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def test_ultralytics_with_tqdm_bars_and_masks(points_of: Callable[..., Any]) -> None:
    output = (
        "      Epoch    GPU_mem   box_loss   seg_loss  Instances       Size\n"
        "\r       1/10       0.5G      1.234      2.345         12        640:  50%|█████     | 4/8 [00:01<00:01]"
        "\r       1/10       0.5G      1.134      2.245         12        640: 100%|██████████| 8/8 [00:02<00:00]\n"
        "                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95)"
        "     Mask(P          R      mAP50  mAP50-95): 100%|██████████| 4/4 [00:01<00:00]\n"
        "                   all        128        929       0.64      0.537      0.605      0.446"
        "      0.5        0.4        0.3        0.2\n"
    )
    assert points_of(output) == [
        ("train/box_loss", 1, 1.134), ("train/seg_loss", 1, 2.245),
        ("metrics/precision(B)", 1, 0.64), ("metrics/recall(B)", 1, 0.537),
        ("metrics/mAP50(B)", 1, 0.605), ("metrics/mAP50-95(B)", 1, 0.446),
        ("metrics/precision(M)", 1, 0.5), ("metrics/recall(M)", 1, 0.4),
        ("metrics/mAP50(M)", 1, 0.3), ("metrics/mAP50-95(M)", 1, 0.2),
    ]  # fmt: skip
