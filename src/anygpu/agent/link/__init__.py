"""Communication with the server: HTTP client, orders (cancel or stop), lease, and the spool and its sender."""
