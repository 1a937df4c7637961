"""The `huggingface` trainer, which runs the Trainer class of transformers on texts and images."""
