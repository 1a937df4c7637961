"""The `nanogpt` trainer: a small GPT language model trained on a text file."""
