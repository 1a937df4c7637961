"""Reach machines over SSH: connections, agent links, and a backend for the user's own hosts."""
