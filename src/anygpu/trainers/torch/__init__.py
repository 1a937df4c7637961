"""Shared code of the PyTorch trainers, and the `torch-classifier` trainer.

The modules that settings checks need do not import torch.
"""
