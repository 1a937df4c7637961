"""Blobs: checkpoints, artifacts, working directories and plans in object storage."""
