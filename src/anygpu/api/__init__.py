"""Pydantic models of every HTTP request and response: the one source for the server, the SDK and OpenAPI."""
