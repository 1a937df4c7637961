"""Live streams of events, logs, metrics and progress."""
