"""Hugging Face's Trainer, for texts and images."""
