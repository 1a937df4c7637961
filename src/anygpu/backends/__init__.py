"""Adapters to the systems that run attempts: the common interface, and one file or folder per backend."""
