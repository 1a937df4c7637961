"""Data about GPUs, published models and PyTorch wheels."""
