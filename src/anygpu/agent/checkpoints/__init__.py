"""Find checkpoints and results, take snapshots of them, and upload them."""
