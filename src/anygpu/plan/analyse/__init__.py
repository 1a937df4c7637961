"""Read what a training script trains, how much, and what would make it cheaper, without running it."""
