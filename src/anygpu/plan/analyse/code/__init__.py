"""Read source and configuration files: syntax, settings and their values."""
