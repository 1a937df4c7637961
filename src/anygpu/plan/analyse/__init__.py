"""Analyse a training script without running it: model, data, duration, memory, and what wastes money."""
