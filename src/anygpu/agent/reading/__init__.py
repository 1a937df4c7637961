"""Metrics and progress, read from the output of scripts that know nothing of anygpu."""

from __future__ import annotations

from anygpu.agent.reading.reader import Reader

__all__ = ["Reader"]
