"""Pydantic models of every HTTP request and response. The server, the SDK and the OpenAPI document use them."""
