"""The parts of HTTP that all routes share: access checks, request bodies, errors, the OpenAPI document."""
