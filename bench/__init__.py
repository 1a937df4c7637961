"""Measurements against peers and limits, as ratios in one run: `make bench` writes docs/benchmarks.md."""
