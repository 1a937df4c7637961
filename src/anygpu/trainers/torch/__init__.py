"""Shared code of the PyTorch trainers, and the `torch-classifier` trainer.

Modules that are used to check settings do not import torch.
"""
