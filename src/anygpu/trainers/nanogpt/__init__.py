"""`nanogpt`: a small language model of our own, on one page, trained on a text file."""
