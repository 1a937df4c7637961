"""Shared code of the detection transformers: datasets with boxes, training loop, metrics and export."""
