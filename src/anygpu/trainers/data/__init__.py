"""Datasets: open, check, split, convert, and compute statistics.

dataset = data.load("helmets.zip")     # raises BadDataset with all problems, by file and line
for item in dataset.splits["train"]: print(item.image, item.boxes)
"""

from __future__ import annotations

from anygpu.trainers.data.archives import open_dataset
from anygpu.trainers.data.convert import to_coco, to_image_folder, to_yolo
from anygpu.trainers.data.dataset import Box, Dataset, Item
from anygpu.trainers.data.loading import load
from anygpu.trainers.data.statistics import ClassCount, Spread, Statistics, statistics
from anygpu.trainers.data.tables import Table, load_table
from anygpu.trainers.errors import BadDataset, Finding

__all__ = [
    "BadDataset",
    "Box",
    "ClassCount",
    "Dataset",
    "Finding",
    "Item",
    "Spread",
    "Statistics",
    "Table",
    "load",
    "load_table",
    "open_dataset",
    "statistics",
    "to_coco",
    "to_image_folder",
    "to_yolo",
]
