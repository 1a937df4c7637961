"""The routes of the API, one module for each resource. Each module has a `router`."""
