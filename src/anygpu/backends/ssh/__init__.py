"""Run agents over SSH: connections to machines and to their agents, and a backend for the user's own hosts."""
