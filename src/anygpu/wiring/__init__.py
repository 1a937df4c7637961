"""Build the running server from its settings. The only package that imports all others."""
