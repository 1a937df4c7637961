"""Routes of the API, one module for each resource. Each has a `router`."""
