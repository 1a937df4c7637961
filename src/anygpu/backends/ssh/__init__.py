"""Run agents over SSH: connections, links to agents, and a backend for the user's own hosts."""
