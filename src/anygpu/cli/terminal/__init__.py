"""Text, tables, charts and live status for the terminal."""
