"""Storage: the journal of events, the agents' reports (metrics and logs), blobs, checkpoints and secrets."""
