"""Adapters to places that run attempts: the contract, and one file or folder per backend."""
