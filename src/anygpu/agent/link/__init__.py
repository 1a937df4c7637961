"""Communication with the server: HTTP client, orders, the spool and its sender."""
