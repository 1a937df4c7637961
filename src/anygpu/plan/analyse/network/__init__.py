"""Find the model that is trained and count its weights."""
