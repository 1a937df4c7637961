"""The server process: state directory, listeners, log, metrics, clock and periodic work."""
