"""Storage: the journal of events, reports (metrics and logs), blobs, checkpoints and secrets."""
