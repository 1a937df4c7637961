"""Communication with the server: HTTP client, orders (cancel or stop), lease, and reports kept on disk until sent."""
