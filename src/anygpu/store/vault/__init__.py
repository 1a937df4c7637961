"""Encrypted values: secrets of projects and credentials of backend profiles."""
