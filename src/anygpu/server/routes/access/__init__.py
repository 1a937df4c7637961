"""Routes for login, tokens and secrets."""
