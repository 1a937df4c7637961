"""Everything between the agent and the server: HTTP, orders, the spool and its sender."""
