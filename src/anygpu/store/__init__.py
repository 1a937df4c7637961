"""Where facts and bytes live: the journal, evidence (metrics and logs), blobs, checkpoints, secrets."""
