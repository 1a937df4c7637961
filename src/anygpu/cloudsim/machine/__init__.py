"""The machines behind simulated instances: processes, SSH server, network, metadata service, user data."""
