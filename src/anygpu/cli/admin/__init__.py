"""Commands about machines, data, settings and the server."""
