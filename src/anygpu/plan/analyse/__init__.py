"""Analyse a training script without running it: what it trains, how much, and what would make it cheaper."""
