"""The server's side of the agent protocol: claims, assignments, reports, checkpoints and end reports."""
