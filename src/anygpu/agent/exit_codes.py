"""Exit codes of the agent process. Backends rely on them; see docs/reference/agent-protocol.md."""

DELIVERED = 0  # the server has received everything, including the end
UNDELIVERED = 1  # the server could not be reached; the spool stays for `--deliver`
USAGE = 2
DUPLICATE = 75  # another agent has this attempt
REJECTED = 77  # the server does not know this attempt
