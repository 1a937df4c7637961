"""Compare what the journal says of an attempt with what its provider and agent say, and record what follows."""
